//! The service `weir.test.Echo`.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tokio_stream::{Stream, StreamExt as _};
use tonic::body::Body;
use tonic::server::{
    ClientStreamingService, Grpc, NamedService, ServerStreamingService, StreamingService,
    UnaryService,
};
use tonic::transport::Server;
use tonic::{Code, Request, Response, Status, Streaming};
use tower_service::Service;

use crate::codec::Plain;

type Answer<T> = Pin<Box<dyn Future<Output = Result<Response<T>, Status>> + Send>>;
type Messages = Pin<Box<dyn Stream<Item = Result<Bytes, Status>> + Send>>;

/// Serves under this name and prints the port.
pub async fn run(name: &str) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    println!("{}", listener.local_addr().unwrap().port());
    let echo = Echo(name.to_owned());
    let serving = Server::builder().add_service(echo);
    serving.serve_with_incoming(TcpListenerStream::new(listener)).await.unwrap();
}

/// All methods; the name goes into their trailers.
#[derive(Clone)]
struct Echo(String);

impl NamedService for Echo {
    const NAME: &'static str = "weir.test.Echo";
}

impl Service<http::Request<Body>> for Echo {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let echo = self.clone();
        Box::pin(async move {
            let mut grpc = Grpc::new(Plain);
            Ok(match method.as_str() {
                "Unary" => grpc.unary(Unary(echo), request).await,
                "Stream" => grpc.server_streaming(Count(echo), request).await,
                "Collect" => grpc.client_streaming(Collect(echo), request).await,
                "Talk" => grpc.streaming(Talk(echo), request).await,
                "Fail" => grpc.unary(Fail(echo), request).await,
                _ => Status::unimplemented("Method not found!").into_http(),
            })
        })
    }
}

struct Unary(Echo);

impl UnaryService<Bytes> for Unary {
    type Response = Bytes;
    type Future = Answer<Bytes>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let name = self.0.0.clone();
        Box::pin(async move {
            let mut response = Response::new(request.into_inner());
            response.metadata_mut().insert("x-server", name.parse().unwrap());
            Ok(response)
        })
    }
}

struct Count(#[expect(dead_code, reason = "the other methods have it")] Echo);

impl ServerStreamingService<Bytes> for Count {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Answer<Messages>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        Box::pin(async move {
            let text = String::from_utf8_lossy(request.get_ref()).into_owned();
            let count: u32 = text.parse().map_err(|_| Status::invalid_argument("no number"))?;
            let numbers = (0..count).map(|number| Ok(Bytes::from(number.to_string())));
            Ok(Response::new(Box::pin(tokio_stream::iter(numbers)) as Messages))
        })
    }
}

struct Collect(#[expect(dead_code, reason = "the other methods have it")] Echo);

impl ClientStreamingService<Bytes> for Collect {
    type Response = Bytes;
    type Future = Answer<Bytes>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async move {
            let mut messages = request.into_inner();
            let mut all = Vec::new();
            while let Some(message) = messages.message().await? {
                all.push(message);
            }
            Ok(Response::new(Bytes::from(all.join(&b'+'))))
        })
    }
}

struct Talk(#[expect(dead_code, reason = "the other methods have it")] Echo);

impl StreamingService<Bytes> for Talk {
    type Response = Bytes;
    type ResponseStream = Messages;
    type Future = Answer<Messages>;

    fn call(&mut self, request: Request<Streaming<Bytes>>) -> Self::Future {
        Box::pin(async move {
            let heard = request.into_inner().map(|message| {
                message.map(|message| Bytes::from([b"heard ", message.as_ref()].concat()))
            });
            Ok(Response::new(Box::pin(heard) as Messages))
        })
    }
}

struct Fail(Echo);

impl UnaryService<Bytes> for Fail {
    type Response = Bytes;
    type Future = Answer<Bytes>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let name = self.0.0.clone();
        Box::pin(async move {
            Err(Status::new(Code::from_bytes(request.get_ref()), format!("{name} says no")))
        })
    }
}
