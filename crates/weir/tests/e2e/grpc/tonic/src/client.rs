//! A client that reads commands, one on each line, and prints one line for each.

use bytes::Bytes;
use http::uri::PathAndQuery;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

use crate::codec::Plain;

/// Runs the commands of the standard input.
pub async fn run(address: &str) {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let mut client = Client { channel: endpoint.connect_lazy(), talk: None };
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let (command, rest) = line.split_once(' ').unwrap_or((line.as_str(), ""));
        match client.run(command, rest).await {
            Ok(said) => println!("{said}"),
            Err(status) => println!("{} {}", name_of(&status), status.message()),
        }
    }
}

/// The name of a status as `client.py` says it: `NotFound` is `NOT_FOUND`.
fn name_of(status: &Status) -> String {
    let mut name = String::new();
    for letter in format!("{:?}", status.code()).chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

struct Client {
    channel: Channel,
    /// The call that is open.
    talk: Option<Talk>,
}

struct Talk {
    say: UnboundedSender<Bytes>,
    heard: UnboundedReceiver<Result<Bytes, Status>>,
}

impl Client {
    async fn run(&mut self, command: &str, rest: &str) -> Result<String, Status> {
        match command {
            "unary" => {
                let response = self.unary("Unary", rest).await?;
                let server = response.metadata().get("x-server").unwrap().to_str().unwrap();
                Ok(format!("{} from {server}", text(response.get_ref())))
            }
            "large" => {
                let message = "x".repeat(rest.parse().unwrap());
                Ok(self.unary("Unary", &message).await?.get_ref().len().to_string())
            }
            "stream" => self.stream(rest).await,
            "collect" => self.collect(rest).await,
            "open" => self.open().await,
            "say" => {
                let talk = self.talk.as_mut().expect("a call is open");
                talk.say.send(Bytes::copy_from_slice(rest.as_bytes())).unwrap();
                let heard = talk.heard.recv().await.transpose()?;
                Ok(heard.map_or_else(String::new, |heard| text(&heard)))
            }
            "close" => {
                let Talk { say, mut heard } = self.talk.take().expect("a call is open");
                drop(say);
                let end = heard.recv().await.transpose()?;
                Ok(end.map_or_else(|| "[]".to_owned(), |more| text(&more)))
            }
            "other" => {
                let method = rest.strip_prefix("/weir.test.Echo/").unwrap();
                self.unary(method, "").await.map(|_| "no failure".to_owned())
            }
            "fail" => self.unary("Fail", rest).await.map(|_| "no failure".to_owned()),
            other => panic!("no command {other}"),
        }
    }

    /// The caller, once the channel takes calls.
    async fn grpc(&self) -> Result<Grpc<Channel>, Status> {
        let mut grpc = Grpc::new(self.channel.clone()).max_decoding_message_size(16 << 20);
        grpc.ready().await.map_err(|error| Status::unavailable(error.to_string()))?;
        Ok(grpc)
    }

    async fn unary(&self, method: &str, message: &str) -> Result<Response<Bytes>, Status> {
        let request = Request::new(Bytes::copy_from_slice(message.as_bytes()));
        self.grpc().await?.unary(request, path(method), Plain).await
    }

    async fn stream(&self, count: &str) -> Result<String, Status> {
        let request = Request::new(Bytes::copy_from_slice(count.as_bytes()));
        let answered = self.grpc().await?.server_streaming(request, path("Stream"), Plain).await?;
        let mut answers = answered.into_inner();
        let mut all = Vec::new();
        while let Some(answer) = answers.message().await? {
            all.push(text(&answer));
        }
        Ok(all.join(" "))
    }

    async fn collect(&self, words: &str) -> Result<String, Status> {
        let words: Vec<_> = words.split(' ').map(|word| Bytes::from(word.to_owned())).collect();
        let request = Request::new(tokio_stream::iter(words));
        let answer = self.grpc().await?.client_streaming(request, path("Collect"), Plain).await?;
        Ok(text(answer.get_ref()))
    }

    /// Opens a call; a server may send no head before its first message.
    async fn open(&mut self) -> Result<String, Status> {
        let (say, said) = unbounded_channel();
        let (hear, heard) = unbounded_channel();
        let mut grpc = self.grpc().await?;
        tokio::spawn(async move {
            let request = Request::new(UnboundedReceiverStream::new(said));
            let answer = grpc.streaming(request, path("Talk"), Plain).await;
            let mut answers: Streaming<Bytes> = match answer {
                Ok(answer) => answer.into_inner(),
                Err(status) => return drop(hear.send(Err(status))),
            };
            while let Some(answer) = answers.message().await.transpose() {
                let _ = hear.send(answer);
            }
        });
        self.talk = Some(Talk { say, heard });
        Ok("opened".to_owned())
    }
}

fn path(method: &str) -> PathAndQuery {
    format!("/weir.test.Echo/{method}").parse().unwrap()
}

fn text(message: &Bytes) -> String {
    String::from_utf8_lossy(message).into_owned()
}
