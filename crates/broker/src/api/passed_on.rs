//! Requests that the controller decides, at a broker whose controller is another node: they are passed on as they
//! came, and the answers go back as they come.
//!
//! What only this broker can tell is decided here: the levels of its loggers, and whether a value of its
//! configuration is one that it can take. The rest of such a request goes on without it.

use super::altered::{Named, each_resource, told};
use super::incremental_alter_configs::{alter_loggers, is_logger};
use super::{Request, Served, Server, dispatch, forwarded_body};
use super::{alter_configs as legacy, incremental_alter_configs as incremental};
use crate::api::broker::Broker;
use crate::api::cluster_node::ClusterNode;
use crate::controller::link::ControllerLink;
use crate::net::{ConnectionContext, ResponseBuffer};
use crate::peers::forwarding::Forwarding;
use controller::alter_configs::{
    AlterOptions, AlteredResource, AskedThrough, ConfigChange, alter_configs,
};
use controller::{ApiError, ControllerContext};
use metadata::ConfigResourceType;
use model::{DecodeError, ErrorCode, Message, Reader};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::messages::{
    AlterConfigsRequest, AlterConfigsResponse, IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse, alter_configs_response, incremental_alter_configs_response,
};
use wire::{ApiKey, RequestHeader, ResponseHeader};

/// Serves a request that is decided elsewhere; `frame` is all of it. What nobody has decided in time is answered
/// as a controller would that cannot decide.
pub(super) async fn serve(
    broker: &Arc<Broker>,
    context: &ConnectionContext,
    request: &Request<'_>,
    frame: &[u8],
    out: &mut ResponseBuffer,
) -> Result<Served, DecodeError> {
    let Some(forwarding) = &broker.forwarding else {
        return dispatch(Server::Broker(broker), context, request, out).await;
    };
    forwarded_body::check(request)?;
    let passing_on = PassingOn {
        broker,
        forwarding,
        context,
        request,
    };
    let passed_on = match request.api {
        ApiKey::IncrementalAlterConfigs => {
            let message: IncrementalAlterConfigsRequest<'_> = request.decode()?;
            passing_on.alteration(message, frame, out).await
        }
        ApiKey::AlterConfigs => {
            let message: AlterConfigsRequest<'_> = request.decode()?;
            passing_on.alteration(message, frame, out).await
        }
        _ => passing_on.whole(frame, out).await,
    };
    let Err(code) = passed_on else {
        return Ok(Served::Answered);
    };
    if code == ErrorCode::UnsupportedVersion {
        let (api, version) = (request.api, request.version);
        let reason = format!("the active controller does not know {api} version {version}");
        return Ok(Served::Close(reason));
    }
    let undecided = Arc::new(ClusterNode {
        controller: ControllerLink::refusing(&broker.controller, code),
        logs: None,
        ..ClusterNode::clone(&broker.cluster_node)
    });
    dispatch(Server::Controller(&undecided), context, request, out).await
}

/// A request that alters configurations, of which a part may be decided here.
trait Alteration<'f>: Message<'f> {
    /// The answer to it.
    type Response<'r>: Message<'r> + Default
    where
        'f: 'r;

    /// The resources that it names once, by their types and names.
    fn once_named(&self) -> Vec<((i8, &'f str), AlteredResource)>;

    /// Whether nothing is to change.
    fn validate_only(&self) -> bool;

    /// Leaves out what is decided; whether there is more.
    fn leave_out(&mut self, decided: &Decided<'f>) -> bool;

    /// The answer of the controller, with what is decided after it.
    fn with_decided<'r>(
        response: &Self::Response<'r>,
        decided: &'r Decided<'f>,
    ) -> Self::Response<'r>;
}

macro_rules! alterations {
    ($($request:ident, $altered_by:path => $response:ident, $result:path;)+) => {$(
        impl<'f> Alteration<'f> for $request<'f> {
            type Response<'r>
                = $response<'r>
            where
                'f: 'r;

            fn once_named(&self) -> Vec<((i8, &'f str), AlteredResource)> {
                let named = each_resource(self.resources.iter(), |one| {
                    (one.resource_type, one.resource_name)
                });
                let once = named.iter().filter_map(Named::once);
                let altered = once.map(|one| {
                    ((one.resource_type, one.resource_name), $altered_by(one))
                });
                altered.collect()
            }

            fn validate_only(&self) -> bool {
                self.validate_only
            }

            fn leave_out(&mut self, decided: &Decided<'f>) -> bool {
                let left = self.resources.iter();
                let left = left.filter(|one| {
                    !decided.contains_key(&(one.resource_type, one.resource_name))
                });
                self.resources = left.collect();
                !self.resources.is_empty()
            }

            fn with_decided<'r>(
                response: &Self::Response<'r>,
                decided: &'r Decided<'f>,
            ) -> Self::Response<'r> {
                let here = decided.iter().map(|((resource_type, resource_name), result)| {
                    let (error_code, error_message) = told(result);
                    $result {
                        error_code,
                        error_message,
                        resource_type: *resource_type,
                        resource_name,
                    }
                });
                $response {
                    throttle_time_ms: response.throttle_time_ms,
                    responses: response.responses.iter().chain(here).collect(),
                }
            }
        }
    )+};
}

alterations! {
    IncrementalAlterConfigsRequest, incremental::altered_by =>
        IncrementalAlterConfigsResponse, incremental_alter_configs_response::AlterConfigsResourceResponse;
    AlterConfigsRequest, legacy::altered_by =>
        AlterConfigsResponse, alter_configs_response::AlterConfigsResourceResponse;
}

/// A request on its way.
struct PassingOn<'a> {
    broker: &'a Arc<Broker>,
    forwarding: &'a Forwarding,
    context: &'a ConnectionContext,
    request: &'a Request<'a>,
}

/// What is decided here, by the type and the name of the resource.
type Decided<'f> = BTreeMap<(i8, &'f str), Result<(), ApiError>>;

impl PassingOn<'_> {
    /// Passes on all of it.
    async fn whole(&self, frame: &[u8], out: &mut ResponseBuffer) -> Result<(), ErrorCode> {
        let answer = self.forward(frame).await?;
        let start = wire::begin_frame(&mut out.head);
        out.head.extend_from_slice(&answer);
        wire::finish_frame(&mut out.head, start, 0);
        Ok(())
    }

    async fn forward(&self, frame: &[u8]) -> Result<bytes::Bytes, ErrorCode> {
        let client = self.context.peer.ip();
        self.forwarding.forward(frame, client).await
    }

    /// Passes on what is not decided here of a request that alters configurations.
    async fn alteration<'f, M: Alteration<'f>>(
        &self,
        mut message: M,
        frame: &[u8],
        out: &mut ResponseBuffer,
    ) -> Result<(), ErrorCode> {
        let decided = self.decide_here(message.once_named(), message.validate_only());
        if decided.is_empty() {
            return self.whole(frame, out).await;
        }
        let answer = match message.leave_out(&decided) {
            true => Some(self.forward(&self.frame_of(&message)).await?),
            false => None,
        };
        let response = match &answer {
            Some(answer) => self.body_of(answer),
            None => Ok(M::Response::default()),
        };
        let response = response.map_err(|_| ErrorCode::UnknownServerError)?;
        self.request
            .answer(&M::with_decided(&response, &decided), out);
        Ok(())
    }

    /// What this broker decides by itself: the levels of its loggers, and that it cannot take a value.
    fn decide_here<'f>(
        &self,
        altered: Vec<((i8, &'f str), AlteredResource)>,
        validate_only: bool,
    ) -> Decided<'f> {
        let config = self.broker.node.live_config();
        let context = ControllerContext::new(&config);
        let image = self.broker.node.image();
        let mut decided = Decided::new();
        for (key, altered) in altered {
            let is_incremental = matches!(altered.change, ConfigChange::Operations(_));
            let result = if is_incremental && is_logger(&altered) {
                alter_loggers(self.broker, &altered, validate_only)
            } else if altered.resource_type == ConfigResourceType::Broker.id() {
                let options = AlterOptions {
                    validate_only: true,
                    asked_through: AskedThrough::OwnBroker,
                };
                let checked = alter_configs(&image, &context, &[altered], options);
                match checked.response.into_iter().next() {
                    Some(Err(error)) => Err(error),
                    _ => continue,
                }
            } else {
                continue;
            };
            decided.insert(key, result);
        }
        decided
    }

    /// The frame of another message with the header of this request.
    fn frame_of<'m, M: Message<'m>>(&self, message: &M) -> Vec<u8> {
        let request = self.request;
        let header = RequestHeader {
            api_key: request.api as i16,
            api_version: request.version,
            correlation_id: request.correlation_id,
            client_id: self.context.client_id.as_deref(),
        };
        let mut frame = Vec::new();
        header.encode(request.api.is_request_flexible(request.version), &mut frame);
        message.write(request.version, &mut frame);
        frame
    }

    /// The body of an answer.
    fn body_of<'m, M: Message<'m>>(&self, answer: &'m [u8]) -> Result<M, DecodeError> {
        let Request { api, version, .. } = *self.request;
        let mut reader = Reader::new(answer);
        ResponseHeader::decode(&mut reader, api.response_header_version(version))?;
        M::read(&mut reader, version)
    }
}
