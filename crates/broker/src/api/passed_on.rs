//! Requests that the controller decides, at a broker whose controller is another node: they are passed on as they
//! came, and the answers go back as they come.
//!
//! What only this broker can tell is decided here: the levels of its loggers, and whether a value of its
//! configuration is one that it can take. The rest of such a request goes on without it.

use super::altered::{Named, each_resource, told};
use super::incremental_alter_configs::{alter_loggers, altered_by, is_logger};
use super::{Request, Served, Server, dispatch};
use crate::api::broker::Broker;
use crate::api::cluster_node::ClusterNode;
use crate::controller::link::ControllerLink;
use crate::net::{ConnectionContext, ResponseBuffer};
use crate::peers::forwarding::Forwarding;
use controller::alter_configs::{AlterOptions, AskedThrough, alter_configs};
use controller::{ApiError, ControllerContext};
use metadata::ConfigResourceType;
use model::{DecodeError, ErrorCode, Message, Reader};
use std::collections::BTreeMap;
use std::sync::Arc;
use wire::messages::incremental_alter_configs_request::AlterConfigsResource;
use wire::messages::incremental_alter_configs_response::AlterConfigsResourceResponse;
use wire::messages::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
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
    let passing_on = PassingOn {
        broker,
        forwarding,
        context,
        request,
    };
    let passed_on = match request.api {
        ApiKey::IncrementalAlterConfigs => passing_on.incremental_alter_configs(frame, out).await?,
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

    async fn incremental_alter_configs(
        &self,
        frame: &[u8],
        out: &mut ResponseBuffer,
    ) -> Result<Result<(), ErrorCode>, DecodeError> {
        let mut message: IncrementalAlterConfigsRequest<'_> = self.request.decode()?;
        let decided = self.decide_here(&message);
        if decided.is_empty() {
            return Ok(self.whole(frame, out).await);
        }
        let is_left = |one: &AlterConfigsResource<'_>| {
            !decided.contains_key(&(one.resource_type, one.resource_name))
        };
        message.resources = message.resources.iter().filter(is_left).collect();
        let answer = match message.resources.is_empty() {
            true => None,
            false => match self.forward(&self.frame_of(&message)).await {
                Ok(answer) => Some(answer),
                Err(code) => return Ok(Err(code)),
            },
        };
        let response = match &answer {
            Some(answer) => self.body_of(answer),
            None => Ok(IncrementalAlterConfigsResponse::default()),
        };
        let Ok(response) = response else {
            return Ok(Err(ErrorCode::UnknownServerError));
        };
        let here = decided
            .iter()
            .map(|((resource_type, resource_name), result)| {
                let (error_code, error_message) = told(result);
                AlterConfigsResourceResponse {
                    error_code,
                    error_message,
                    resource_type: *resource_type,
                    resource_name,
                }
            });
        let all = IncrementalAlterConfigsResponse {
            throttle_time_ms: response.throttle_time_ms,
            responses: response.responses.iter().chain(here).collect(),
        };
        self.request.answer(&all, out);
        Ok(Ok(()))
    }

    /// What this broker decides by itself: the levels of its loggers, and that it cannot take a value.
    fn decide_here<'f>(&self, message: &IncrementalAlterConfigsRequest<'f>) -> Decided<'f> {
        let named = each_resource(message.resources.iter(), |one| {
            (one.resource_type, one.resource_name)
        });
        let config = self.broker.node.live_config();
        let context = ControllerContext::new(&config);
        let image = self.broker.node.image();
        let mut decided = Decided::new();
        for resource in named.iter().filter_map(Named::once) {
            let altered = altered_by(resource);
            let result = if is_logger(&altered) {
                alter_loggers(self.broker, &altered, message.validate_only)
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
            decided.insert((resource.resource_type, resource.resource_name), result);
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
