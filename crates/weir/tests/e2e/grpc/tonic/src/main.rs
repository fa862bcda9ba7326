//! A server and a client of gRPC with tonic and no generated code: messages are bytes. They take
//! the arguments and commands of `server.py` and `client.py`: `tonic-calls server NAME`,
//! `tonic-calls client ADDRESS`.

mod client;
mod codec;
mod server;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let (role, argument) = (arguments.next(), arguments.next().expect("an argument"));
    match role.as_deref() {
        Some("server") => server::run(&argument).await,
        Some("client") => client::run(&argument).await,
        other => panic!("`server` or `client`, not {other:?}"),
    }
}
