//! The data plane: workers, listeners, connections, exchanges, TLS. It opens no file of its own accord, resolves
//! no name and knows no admin interface.

pub mod tls;
