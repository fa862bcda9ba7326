//! Typical request and response heads, the input of the examples.

/// A request head as browsers send it.
pub(crate) const REQUEST: &[u8] = b"GET /catalogue/items?page=3&sort=price HTTP/1.1\r\n\
    Host: shop.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n\
    Accept-Language: en-US,en;q=0.5\r\n\
    Accept-Encoding: gzip, deflate, br\r\n\
    Referer: https://shop.example.com/catalogue\r\n\
    Connection: keep-alive\r\n\
    Cookie: session=9f1c2d3e4b5a69788796a5b4c3d2e1f0; beta=1\r\n\
    Upgrade-Insecure-Requests: 1\r\n\
    Cache-Control: max-age=0\r\n\r\n";
/// A response head as nginx sends it.
pub(crate) const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: nginx/1.22.1\r\n\
    Date: Thu, 20 Nov 2025 19:15:00 GMT\r\n\
    Content-Type: application/octet-stream\r\n\
    Content-Length: 1024\r\n\
    Last-Modified: Thu, 20 Nov 2025 19:00:00 GMT\r\n\
    Connection: keep-alive\r\n\
    ETag: \"691f6a30-400\"\r\n\
    Accept-Ranges: bytes\r\n\r\n";
