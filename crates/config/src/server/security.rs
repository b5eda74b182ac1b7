//! Authentication and authorization. Keys of single listeners are read with
//! `ServerConfig::listener_value`.

use crate::typed::TypedValues;

/// Who may do what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecurityConfig {
    /// Class name of the authorizer; none allows every request.
    pub authorizer_class_name: Option<String>,
}

impl SecurityConfig {
    pub(super) fn of_values(values: &TypedValues) -> Self {
        let name = values.text("authorizer.class.name").unwrap_or_default();
        Self {
            authorizer_class_name: Some(name.to_owned()).filter(|name| !name.is_empty()),
        }
    }
}
