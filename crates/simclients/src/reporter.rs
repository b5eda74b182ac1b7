//! By which an application says what it does.

use crate::network::Network;
use crate::report::{Output, Report};
use std::sync::Arc;

/// By which an application speaks.
#[derive(Debug, Clone)]
pub(crate) struct Reporter {
    client: usize,
    network: Arc<Network>,
}

impl Reporter {
    pub(crate) const fn new(client: usize, network: Arc<Network>) -> Self {
        Self { client, network }
    }

    pub(crate) const fn client(&self) -> usize {
        self.client
    }

    pub(crate) const fn network(&self) -> &Arc<Network> {
        &self.network
    }

    pub(crate) fn report(&self, report: Report) {
        let client = self.client;
        self.network.put(Output::Report { client, report });
    }
}
