//! The description of the HTTP interface for programs (OpenAPI 3.1), made from the table of routes.
//! The file in the repository is served; a test compares it with the table.

/// The description as it is served.
pub(crate) const TEXT: &str = include_str!("../../openapi.json");

#[cfg(test)]
mod tests {
    use serde_json::{Map, Value, json};

    use super::TEXT;
    use crate::access::caller::Right;
    use crate::api::routes::ROUTES;
    use crate::http::call::ApiRoute;

    fn parameters(route: &ApiRoute) -> Vec<Value> {
        let names =
            route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let mut list: Vec<Value> = names
            .map(|name| {
                json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}})
            })
            .collect();
        if route.right > Right::Read {
            list.push(json!({
                "name": "dry_run", "in": "query", "schema": {"type": "boolean"},
                "description": "Only checks the change and reports its effect."
            }));
        }
        list
    }

    fn operation(route: &ApiRoute) -> Value {
        let error = json!({
            "description": "The reason for the failure",
            "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
        });
        let mut responses = json!({"200": {"description": "Done"}, "401": error, "404": error});
        if route.right > Right::Read {
            for status in ["400", "403", "409", "412", "413", "422"] {
                responses[status] = error.clone();
            }
        }
        json!({
            "summary": route.summary,
            "x-right": route.right.as_str(),
            "parameters": parameters(route),
            "responses": responses,
        })
    }

    fn generated() -> String {
        let mut paths = Map::new();
        for route in ROUTES {
            let path = paths.entry(route.path).or_insert_with(|| json!({}));
            path[route.method.as_str().to_lowercase()] = operation(route);
        }
        let document = json!({
            "openapi": "3.1.0",
            "info": {
                "title": "Weir's admin interface",
                "version": "1",
                "description": "Reads and changes a running Weir: over a Unix socket for the users that the file's owner, group and mode allow; over TCP with a bearer token, or without one and without changes where the address is read_only."
            },
            "paths": paths,
            "components": {
                "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
                "schemas": {"Error": {
                    "type": "object",
                    "required": ["error"],
                    "properties": {"error": {
                        "type": "object",
                        "required": ["field", "message"],
                        "properties": {
                            "field": {"type": ["string", "null"], "description": "The field of the request that is at fault"},
                            "message": {"type": "string"}
                        }
                    }}
                }}
            },
            "security": [{}, {"token": []}]
        });
        serde_json::to_string_pretty(&document).unwrap() + "\n"
    }

    #[test]
    fn openapi_json_is_made_from_the_routes() {
        let generated = generated();
        if std::env::var_os("WEIR_BLESS").is_some() {
            let path = concat!(env!("CARGO_MANIFEST_DIR"), "/openapi.json");
            std::fs::write(path, &generated).unwrap();
            return;
        }
        assert!(
            TEXT == generated,
            "openapi.json is not of these routes: WEIR_BLESS=1 cargo test -p weir-admin writes it"
        );
    }
}
