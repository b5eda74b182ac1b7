package riverrun.interop.swap;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.ConfigEntry.ConfigSource;
import org.apache.kafka.clients.admin.ListConfigResourcesOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclBindingFilter;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.SecurityDisabledException;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;

import riverrun.interop.Check;
import riverrun.interop.Cluster;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;

/**
 * What an operator sets, with every server: topics made, grown, configured and deleted, settings of
 * brokers, groups and metrics, quotas, credentials, access control entries where there is an
 * authorizer. What a server shows at the end of its turn, the next one shows at its start.
 */
final class AdminState implements Part {
    private final Cluster cluster;
    private final boolean hasNewGroups;
    private final Set<AclBinding> acls = new HashSet<>();
    private String left;

    AdminState(Cluster cluster, Set<String> capabilities) {
        this.cluster = cluster;
        this.hasNewGroups = capabilities.contains("consumer-groups");
    }

    @Override
    public void write(int turn) throws Exception {
        try (Admin admin = cluster.admin()) {
            topics(admin, turn);
            configs(admin, turn);
            quotas(admin, turn);
            var salt = ("salt of turn " + turn).getBytes();
            var info = new ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096 + turn);
            admin.alterUserScramCredentials(
                            List.of(
                                    new UserScramCredentialUpsertion(
                                            "user-" + turn, info, "secret".getBytes(), salt)))
                    .all()
                    .get();
            acls(admin, turn);
            left = shown(admin);
        }
    }

    private void topics(Admin admin, int turn) throws Exception {
        cluster.createTopic("swap-topic-" + turn, 2, "retention.ms", "" + (100_000_000 + turn));
        if (turn >= 1) {
            var more = Map.of("swap-topic-" + (turn - 1), NewPartitions.increaseTo(3));
            admin.createPartitions(more).all().get();
        }
        if (turn >= 2) {
            admin.deleteTopics(List.of("swap-topic-" + (turn - 2))).all().get();
        }
    }

    private void configs(Admin admin, int turn) throws Exception {
        set(admin, ConfigResource.Type.TOPIC, "swap-topic-" + turn, "segment.bytes", 2_000_000);
        set(admin, ConfigResource.Type.BROKER, "", "log.retention.ms", 500_000_000 + turn);
        set(admin, ConfigResource.Type.BROKER, "1", "max.connections", 10_000 + turn);
        set(admin, ConfigResource.Type.CLIENT_METRICS, "metrics-" + turn, "interval.ms", 60_000);
        if (hasNewGroups) {
            set(
                    admin,
                    ConfigResource.Type.GROUP,
                    "swap-group-" + turn,
                    "consumer.session.timeout.ms",
                    50_000);
        }
    }

    private static void set(
            Admin admin, ConfigResource.Type type, String name, String key, int value)
            throws Exception {
        var operation =
                new AlterConfigOp(new ConfigEntry(key, "" + value), AlterConfigOp.OpType.SET);
        admin.incrementalAlterConfigs(
                        Map.of(new ConfigResource(type, name), List.of(operation)))
                .all()
                .get();
    }

    private static void quotas(Admin admin, int turn) throws Exception {
        Map<String, String> both = new HashMap<>();
        both.put(ClientQuotaEntity.USER, "user-" + turn);
        both.put(ClientQuotaEntity.CLIENT_ID, turn % 2 == 0 ? null : "client");
        var rate = new ClientQuotaAlteration.Op("producer_byte_rate", 1e9 + turn);
        var share = new ClientQuotaAlteration.Op("request_percentage", 100.5);
        var address = Map.of(ClientQuotaEntity.IP, "10.0.0." + turn);
        var connections = new ClientQuotaAlteration.Op("connection_creation_rate", 100.0 + turn);
        List<ClientQuotaAlteration> alterations =
                new ArrayList<>(
                        List.of(
                                new ClientQuotaAlteration(
                                        new ClientQuotaEntity(both), List.of(rate, share)),
                                new ClientQuotaAlteration(
                                        new ClientQuotaEntity(address), List.of(connections))));
        if (turn >= 2) {
            var gone = new ClientQuotaAlteration.Op("connection_creation_rate", null);
            var old = Map.of(ClientQuotaEntity.IP, "10.0.0." + (turn - 2));
            alterations.add(
                    new ClientQuotaAlteration(new ClientQuotaEntity(old), List.of(gone)));
        }
        admin.alterClientQuotas(alterations).all().get();
    }

    private void acls(Admin admin, int turn) throws Exception {
        var topic = new ResourcePattern(ResourceType.TOPIC, "swap-", PatternType.PREFIXED);
        var entry =
                new AccessControlEntry(
                        "User:user-" + turn, "*", AclOperation.READ, AclPermissionType.ALLOW);
        var binding = new AclBinding(topic, entry);
        try {
            admin.createAcls(List.of(binding)).all().get();
            acls.add(binding);
        } catch (ExecutionException refused) {
            Check.that(refused.getCause() instanceof SecurityDisabledException, "" + refused);
        }
    }

    @Override
    public void check(int turn) throws Exception {
        try (Admin admin = cluster.admin()) {
            String found = shown(admin);
            Check.that(left.equals(found), "left:\n" + left + "found:\n" + found);
            try {
                var kept = admin.describeAcls(AclBindingFilter.ANY).values().get();
                Check.equal(acls, new HashSet<>(kept), "access control entries");
            } catch (ExecutionException refused) {
                Check.that(refused.getCause() instanceof SecurityDisabledException, "" + refused);
            }
        }
    }

    /** Everything that an operator can see, as text. */
    private String shown(Admin admin) throws Exception {
        StringBuilder text = new StringBuilder();
        text.append("cluster ").append(admin.describeCluster().clusterId().get()).append('\n');
        var finalized = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
        new TreeMap<>(finalized)
                .forEach(
                        (name, range) ->
                                text.append(name).append(' ').append(range).append('\n'));
        List<ConfigResource> resources = new ArrayList<>();
        Set<String> topics = new TreeSet<>(admin.listTopics().names().get());
        for (var topic : new TreeMap<>(admin.describeTopics(topics).allTopicNames().get()).values()) {
            text.append(topic.name()).append(' ').append(topic.topicId()).append(' ');
            text.append(topic.partitions().size()).append('\n');
            resources.add(new ConfigResource(ConfigResource.Type.TOPIC, topic.name()));
        }
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, ""));
        resources.add(new ConfigResource(ConfigResource.Type.BROKER, "1"));
        var metrics = Set.of(ConfigResource.Type.CLIENT_METRICS);
        resources.addAll(
                admin.listConfigResources(metrics, new ListConfigResourcesOptions()).all().get());
        if (hasNewGroups) {
            for (int turn = 0; turn < 6; turn++) {
                resources.add(new ConfigResource(ConfigResource.Type.GROUP, "swap-group-" + turn));
            }
        }
        showConfigs(admin, resources, text);
        Set<String> quotas = new TreeSet<>();
        admin.describeClientQuotas(ClientQuotaFilter.all())
                .entities()
                .get()
                .forEach(
                        (entity, values) ->
                                quotas.add(
                                        new TreeMap<>(entity.entries())
                                                + " "
                                                + new TreeMap<>(values)));
        quotas.forEach(quota -> text.append(quota).append('\n'));
        new TreeMap<>(admin.describeUserScramCredentials().all().get())
                .values()
                .forEach(user -> text.append(user).append('\n'));
        return text.toString();
    }

    private static void showConfigs(
            Admin admin, List<ConfigResource> resources, StringBuilder text) throws Exception {
        Set<String> lines = new TreeSet<>();
        admin.describeConfigs(resources)
                .all()
                .get()
                .forEach(
                        (resource, config) -> {
                            for (ConfigEntry entry : config.entries()) {
                                if (isSet(entry.source())) {
                                    lines.add(
                                            resource.type() + " " + resource.name() + " "
                                                    + entry.name() + "=" + entry.value() + " "
                                                    + entry.source());
                                }
                            }
                        });
        lines.forEach(line -> text.append(line).append('\n'));
    }

    /** Whether somebody has set it, and not the server's own configuration. */
    private static boolean isSet(ConfigSource source) {
        return source != ConfigSource.DEFAULT_CONFIG
                && source != ConfigSource.STATIC_BROKER_CONFIG;
    }
}
