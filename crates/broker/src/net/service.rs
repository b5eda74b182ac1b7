//! What connections know of those who serve their requests.

use super::connection_context::ConnectionContext;
use super::response::ResponseBuffer;
use crate::scheduling::heavy_work::Lane;

/// Whoever serves the requests of connections.
pub(crate) trait Service: Send + Sync + 'static {
    /// What a request may take, by its frame.
    fn weight(&self, frame: &[u8]) -> Weight;

    /// Serves a request, and appends its answer.
    fn serve(
        self: &std::sync::Arc<Self>,
        context: &mut ConnectionContext,
        frame: &mut [u8],
        out: &mut ResponseBuffer,
    ) -> impl Future<Output = Served> + Send;
}

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Served {
    /// Its answer, if it has one, is in the buffer.
    Answered,
    /// There is no answer; the connection ends, for this reason.
    Close(String),
    /// The same, since the client asks for what is not done here: its operator should know.
    Refuse(String),
}

/// What serving a request may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Weight {
    /// Whether it is answered at once as a rule.
    pub(crate) is_quick: bool,
    /// Where it waits for its turn, if it takes time that would hold up others.
    pub(crate) lane: Option<Lane>,
    /// How large its answer may be.
    pub(crate) answer: AnswerSize,
    /// Whether it waits for the controller, with all that it brings.
    pub(crate) is_for_controller: bool,
}

/// How large an answer may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerSize {
    /// In proportion to the request.
    Proportional,
    /// As much as others have made. The request changes nothing, so it can be served again.
    Unknown,
    /// Much.
    Large,
}
