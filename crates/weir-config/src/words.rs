//! How types of other crates are written in the JSON form: as the words and texts that a configuration uses.

/// A balancing policy, by its word.
pub(crate) mod policy {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use weir_balance::PolicyKind;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(crate) fn serialize<S: Serializer>(
        policy: &PolicyKind,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(policy.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<PolicyKind, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// A text with `$variables`, as it was written.
pub(crate) mod template {
    use serde::{Deserialize, Deserializer, Serializer, de};
    use weir_stats::Template;

    pub(crate) fn parse<E: de::Error>(text: &str) -> Result<Template, E> {
        Template::parse(text).map_err(|error| E::custom(error.message))
    }

    pub(crate) fn serialize<S: Serializer>(
        template: &Template,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(template.as_str())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Template, D::Error> {
        parse(&String::deserialize(deserializer)?)
    }

    /// One that may be absent.
    pub(crate) mod option {
        use serde::{Deserialize, Deserializer, Serialize, Serializer};
        use weir_stats::Template;

        #[expect(clippy::ref_option, reason = "serde calls it with a reference to the field")]
        pub(crate) fn serialize<S: Serializer>(
            template: &Option<Template>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            template.as_ref().map(Template::as_str).serialize(serializer)
        }

        pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Option<Template>, D::Error> {
            Option::<String>::deserialize(deserializer)?.map(|text| super::parse(&text)).transpose()
        }
    }
}
