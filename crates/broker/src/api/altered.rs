//! What AlterConfigs and IncrementalAlterConfigs share: the resources of a request, each of them
//! once, and what is answered for them.

use crate::api::cluster_node::ClusterNode;
use controller::alter_configs::{AlterOptions, AlteredResource};
use controller::{AlterConfigs, ApiError};
use model::ErrorCode;
use std::collections::BTreeMap;

/// A resource of a request.
#[derive(Debug)]
pub(super) struct Named<T> {
    /// As it was named first.
    pub resource: T,
    is_repeated: bool,
}

impl<T> Named<T> {
    /// The resource, unless the request names it again.
    pub(super) fn once(&self) -> Option<&T> {
        (!self.is_repeated).then_some(&self.resource)
    }
}

/// The resources in the order of the request, each of them once.
pub(super) fn each_resource<'a, T>(
    resources: impl Iterator<Item = T> + Clone,
    key: impl Fn(&T) -> (i8, &'a str),
) -> Vec<Named<T>> {
    let mut counts: BTreeMap<(i8, &str), usize> = BTreeMap::new();
    for resource in resources.clone() {
        *counts.entry(key(&resource)).or_default() += 1;
    }
    let named = resources.filter_map(|resource| {
        let count = counts.remove(&key(&resource))?;
        Some(Named {
            resource,
            is_repeated: count > 1,
        })
    });
    named.collect()
}

/// Lets the controller change configurations; one result for each resource, in their order.
pub(super) async fn alter(
    server: &ClusterNode,
    resources: Vec<AlteredResource>,
    options: AlterOptions,
) -> Vec<Result<(), ApiError>> {
    let count = resources.len();
    let altered = server
        .controller
        .request(AlterConfigs { resources, options });
    altered.await.unwrap_or_else(|error| {
        (0..count)
            .map(|_| Err(ApiError::with_default_message(error)))
            .collect()
    })
}

/// A result for each resource: of those that were named once, from `results`.
pub(super) fn results_of<T>(
    named: &[Named<T>],
    results: Vec<Result<(), ApiError>>,
) -> Vec<Result<(), ApiError>> {
    let mut results = results.into_iter();
    let all = named.iter().map(|named| match named.once() {
        Some(_) => results.next().expect("one result for each resource"),
        None => Err(ApiError::new(
            ErrorCode::InvalidRequest,
            "Each resource must appear at most once.",
        )),
    });
    all.collect()
}

/// The code and the words of a result.
pub(super) fn told(result: &Result<(), ApiError>) -> (i16, Option<&str>) {
    match result {
        Ok(()) => (ErrorCode::None.code(), None),
        Err(error) => (error.code.code(), error.message.as_deref()),
    }
}
