//! Requests for the files of a temporary site: heads, bodies, ranges, conditions, and attempts to
//! leave the root.

use std::fs;
use std::io;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use tempfile::TempDir;
use weir_files::{Answer, BodyProgress, FileAnswer, FileBody, FileRequest, FileTypes, Root};

const CANARY: &str = "the canary outside the root";
/// Sun, 01 Jan 2023 00:00:00 GMT.
const MODIFIED: u64 = 1_672_531_200;

/// A site in a temporary directory, with a file next to it that must never be served.
struct Site {
    place: TempDir,
    root: Root,
}

impl Site {
    fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("site");
        fs::create_dir(&directory).unwrap();
        fs::write(place.path().join("canary"), CANARY).unwrap();
        let root =
            Root::open(&directory, vec!["index.html".to_owned(), "index.htm".to_owned()]).unwrap();
        Self { place, root }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.place.path().join("site").join(name)
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) -> &Self {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let file = fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED)).unwrap();
        self
    }

    fn ask(&self, request: FileRequest<'_>) -> Answer {
        let request = FileRequest { target: request.path, ..request };
        self.root.answer(&request).unwrap()
    }

    fn get(&self, path: &str) -> Answer {
        self.ask(FileRequest { path: path.as_bytes(), ..FileRequest::default() })
    }

    fn status(&self, path: &str) -> u16 {
        status(&self.get(path))
    }
}

fn status(answer: &Answer) -> u16 {
    match answer {
        Answer::Status(answer) => answer.code,
        Answer::File(answer) => answer.status,
    }
}

fn file(answer: Answer) -> FileAnswer {
    match answer {
        Answer::File(file) => file,
        Answer::Status(answer) => panic!("{answer:?}"),
    }
}

fn headers(answer: Answer) -> Vec<(&'static str, String)> {
    match answer {
        Answer::Status(answer) => answer.headers,
        Answer::File(answer) => panic!("{answer:?}"),
    }
}

/// All bytes of a body, read in steps.
fn bytes(body: FileBody, step: usize) -> io::Result<Vec<u8>> {
    let mut pieces = match body {
        FileBody::Whole(bytes) => return Ok(bytes),
        FileBody::Pieces(pieces) => pieces,
    };
    let mut bytes = Vec::new();
    loop {
        let before = bytes.len();
        let progress = pieces.read(&mut bytes, step)?;
        assert!(bytes.len() - before <= step);
        if progress == BodyProgress::Done {
            return Ok(bytes);
        }
        assert!(bytes.len() > before, "progress is made");
    }
}

fn text(answer: Answer) -> String {
    String::from_utf8(bytes(file(answer).body, 7).unwrap()).unwrap()
}

fn numbers(len: usize) -> Vec<u8> {
    (0..len).map(|idx| (idx % 251) as u8).collect()
}

#[test]
fn serves_a_file_with_its_head() {
    let site = Site::new();
    site.write("hello.txt", "hello");
    let answer = file(site.get("/hello.txt"));
    assert_eq!(answer.status, 200);
    assert_eq!(answer.content_type, "text/plain; charset=utf-8");
    assert_eq!(answer.content_length, 5);
    assert_eq!(answer.etag, "\"63b0cd00-5\"");
    assert_eq!(answer.last_modified.as_deref(), Some("Sun, 01 Jan 2023 00:00:00 GMT"));
    assert_eq!(answer.content_range, None);
    assert!(matches!(answer.body, FileBody::Whole(bytes) if bytes == b"hello"));
}

#[test]
fn knows_types_by_extension() {
    let site = Site::new();
    let check = |name: &str, expected: &str| {
        site.write(name, "x");
        assert_eq!(file(site.get(&format!("/{name}"))).content_type, expected);
    };
    check("a.html", "text/html; charset=utf-8");
    check("a.CSS", "text/css; charset=utf-8");
    check("a.js", "text/javascript; charset=utf-8");
    check("a.csv", "text/csv; charset=utf-8");
    check("a.json", "application/json");
    check("a.png", "image/png");
    check("a.svg", "image/svg+xml");
    check("a.wasm", "application/wasm");
    check("a.unheard-of", "application/octet-stream");
    check("no-extension", "application/octet-stream");
    check(".hidden", "application/octet-stream");
}

#[test]
fn head_has_the_length_and_no_body_and_ignores_ranges() {
    let site = Site::new();
    site.write("big", numbers(300_000));
    let request = FileRequest {
        path: b"/big",
        method_is_head: true,
        range: Some(b"bytes=0-1"),
        ..FileRequest::default()
    };
    let answer = file(site.ask(request));
    assert_eq!((answer.status, answer.content_length), (200, 300_000));
    assert!(matches!(answer.body, FileBody::Whole(bytes) if bytes.is_empty()));
}

#[test]
fn reads_small_files_at_once_and_large_ones_in_steps() {
    let site = Site::new();
    for len in [0, 1, 65_536, 65_537, 300_000] {
        site.write("f", numbers(len));
        let answer = file(site.get("/f"));
        assert_eq!(answer.content_length, len as u64);
        assert_eq!(matches!(answer.body, FileBody::Whole(_)), len <= 65_536, "{len}");
        assert!(bytes(answer.body, 10_000).unwrap() == numbers(len), "{len}");
    }
}

#[test]
fn a_file_that_shrinks_is_an_error_and_one_that_grows_is_capped() {
    let site = Site::new();
    site.write("f", numbers(200_000));
    let grows = file(site.get("/f")).body;
    let shrinks = file(site.get("/f")).body;
    fs::write(site.path("f"), numbers(250_000)).unwrap();
    assert!(bytes(grows, 65_536).unwrap() == numbers(200_000));
    fs::write(site.path("f"), numbers(100_000)).unwrap();
    assert_eq!(bytes(shrinks, 65_536).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
}

#[test]
fn directories_have_an_index_or_a_slash_to_gain() {
    let site = Site::new();
    site.write("index.html", "root").write("docs/index.htm", "docs").write("empty/file", "x");
    fs::create_dir_all(site.path("odd/index.html")).unwrap();
    assert_eq!(text(site.get("/")), "root");
    assert_eq!(text(site.get("")), "root");
    assert_eq!(text(site.get("/docs/")), "docs");
    assert_eq!(file(site.get("/docs/")).content_type, "text/html; charset=utf-8");
    assert_eq!(site.status("/empty/"), 403);
    assert_eq!(site.status("/odd/"), 403);
    assert_eq!(site.status("/none/"), 404);
    assert_eq!(site.status("/empty/file/"), 404);
    assert_eq!(site.status("/empty/file/more"), 404);
    assert_eq!(headers(site.get("/docs")), [("Location", "/docs/".to_owned())]);
    assert_eq!(site.status("/docs"), 301);
}

#[test]
fn redirects_keep_prefix_and_query_and_stay_on_the_site() {
    let site = Site::new();
    site.write("docs/x", "x");
    let check = |target: &str, expected: &str| {
        let request =
            FileRequest { path: b"/docs", target: target.as_bytes(), ..FileRequest::default() };
        assert_eq!(
            headers(site.root.answer(&request).unwrap()),
            [("Location", expected.to_owned())]
        );
    };
    check("/static/docs", "/static/docs/");
    check("/static/docs?a=1&b=/", "/static/docs/?a=1&b=/");
    check("//elsewhere.example/docs", "/elsewhere.example/docs/");
    check("/\\elsewhere.example/docs", "/elsewhere.example/docs/");
    check("\\/\\/elsewhere.example", "/elsewhere.example/");
    check("/caf\u{e9}\r\nSet-Cookie: x", "/caf%C3%A9%0D%0ASet-Cookie:%20x/");
}

#[test]
fn single_ranges() {
    let site = Site::new();
    site.write("f", "0123456789");
    let check = |range: &str, status: u16, content_range: Option<&str>, body: &str| {
        let request =
            FileRequest { path: b"/f", range: Some(range.as_bytes()), ..FileRequest::default() };
        let answer = file(site.ask(request));
        assert_eq!(
            (answer.status, answer.content_range.as_deref()),
            (status, content_range),
            "{range}"
        );
        assert_eq!(answer.content_length, body.len() as u64, "{range}");
        assert_eq!(bytes(answer.body, 3).unwrap(), body.as_bytes(), "{range}");
    };
    check("bytes=2-4", 206, Some("bytes 2-4/10"), "234");
    check("bytes=-2", 206, Some("bytes 8-9/10"), "89");
    check("bytes=7-", 206, Some("bytes 7-9/10"), "789");
    check("bytes=0-99", 206, Some("bytes 0-9/10"), "0123456789");
    check("lines=0-1", 200, None, "0123456789");
    let request = FileRequest { path: b"/f", range: Some(b"bytes=10-"), ..FileRequest::default() };
    let answer = site.ask(request);
    assert_eq!(status(&answer), 416);
    assert_eq!(headers(answer), [("Content-Range", "bytes */10".to_owned())]);
}

#[test]
fn several_ranges_are_multipart_of_the_promised_length() {
    let site = Site::new();
    site.write("f.txt", numbers(400_000));
    for (range, step) in [("bytes=0-1,5-6,-1", 1), ("bytes=0-99999,300000-399999", 4096)] {
        let request = FileRequest {
            path: b"/f.txt",
            range: Some(range.as_bytes()),
            ..FileRequest::default()
        };
        let answer = file(site.ask(request));
        assert_eq!((answer.status, answer.content_range.as_ref()), (206, None));
        let boundary =
            answer.content_type.strip_prefix("multipart/byteranges; boundary=").unwrap().to_owned();
        let mut expected = Vec::new();
        let parts: &[(usize, usize)] = if step == 1 {
            &[(0, 1), (5, 6), (399_999, 399_999)]
        } else {
            &[(0, 99_999), (300_000, 399_999)]
        };
        for (idx, (first, last)) in parts.iter().enumerate() {
            let line = if idx == 0 { "" } else { "\r\n" };
            let head = format!(
                "{line}--{boundary}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Range: bytes {first}-{last}/400000\r\n\r\n"
            );
            expected.extend(head.into_bytes());
            expected.extend(&numbers(400_000)[*first..=*last]);
        }
        expected.extend(format!("\r\n--{boundary}--\r\n").into_bytes());
        assert_eq!(answer.content_length, expected.len() as u64);
        assert!(bytes(answer.body, step).unwrap() == expected);
    }
}

#[test]
fn conditions_precede_ranges() {
    let site = Site::new();
    site.write("f", "0123456789");
    let etag: &[u8] = b"\"63b0cd00-a\"";
    let base = FileRequest { path: b"/f", range: Some(b"bytes=0-0"), ..FileRequest::default() };
    let answer = site.ask(FileRequest { if_none_match: Some(etag), ..base });
    assert_eq!(status(&answer), 304);
    let expected = [
        ("ETag", "\"63b0cd00-a\"".to_owned()),
        ("Last-Modified", "Sun, 01 Jan 2023 00:00:00 GMT".to_owned()),
    ];
    assert_eq!(headers(answer), expected);
    assert_eq!(status(&site.ask(FileRequest { if_match: Some(b"\"x\""), ..base })), 412);
    assert_eq!(status(&site.ask(FileRequest { if_range: Some(etag), ..base })), 206);
    assert_eq!(status(&site.ask(FileRequest { if_range: Some(b"\"x\""), ..base })), 200);
    assert_eq!(
        status(&site.ask(FileRequest { path: b"/none", if_match: Some(b"*"), ..base })),
        404
    );
}

#[test]
fn a_link_may_lead_around_inside_and_never_out() {
    let site = Site::new();
    site.write("a/real", "real").write("index.html", "root");
    symlink("a/real", site.path("inside")).unwrap();
    symlink("../inside", site.path("a/up")).unwrap();
    symlink("../canary", site.path("relative")).unwrap();
    symlink(site.place.path().join("canary"), site.path("absolute")).unwrap();
    symlink("../", site.path("parent")).unwrap();
    symlink("/proc/self/root", site.path("magic")).unwrap();
    symlink("loop", site.path("loop")).unwrap();
    symlink("nowhere", site.path("dangling")).unwrap();
    assert_eq!(text(site.get("/inside")), "real");
    assert_eq!(text(site.get("/a/up")), "real");
    for path in [
        "/relative",
        "/absolute",
        "/parent",
        "/parent/",
        "/parent/canary",
        "/magic/etc/passwd",
        "/loop",
    ] {
        assert_eq!(site.status(path), 403, "{path}");
    }
    assert_eq!(site.status("/dangling"), 404);
}

#[test]
fn paths_that_lead_out_or_name_nothing_are_refused() {
    let site = Site::new();
    site.write("a/file", "x");
    for path in
        ["/../canary", "/a/../../canary", "/%2e%2e/canary", "/.%2E/canary", "/a%00", "/%", "/%f"]
    {
        assert_eq!(site.status(path), 400, "{path}");
    }
    for path in ["/..%2fcanary", "/a%2ffile", "/none", "/a\\file", "/..\\canary", "/a/file%20"] {
        assert_eq!(site.status(path), 404, "{path}");
    }
    assert_eq!(site.status(&format!("/{}", "x".repeat(300))), 404);
    assert_eq!(site.status(&"/x".repeat(3000)), 404);
}

#[test]
fn only_regular_files_that_may_be_read_are_served() {
    let site = Site::new();
    site.write("file", "x");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        site.path("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let _socket = UnixListener::bind(site.path("socket")).unwrap();
    assert_eq!(site.status("/fifo"), 403);
    assert_eq!(site.status("/socket"), 403);
    fs::set_permissions(site.path("file"), fs::Permissions::from_mode(0o000)).unwrap();
    let expected = if rustix::process::geteuid().is_root() { 200 } else { 403 };
    assert_eq!(site.status("/file"), expected);
}

#[test]
fn opening_says_what_is_wrong_and_a_swapped_link_deploys() {
    let place = tempfile::tempdir().unwrap();
    let open = |path: &Path| Root::open(path, Vec::new());
    assert_eq!(open(&place.path().join("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
    for version in ["one", "two"] {
        fs::create_dir(place.path().join(version)).unwrap();
        fs::write(place.path().join(version).join("f"), version).unwrap();
    }
    assert_eq!(open(&place.path().join("one/f")).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    symlink("one", place.path().join("current")).unwrap();
    let root = open(&place.path().join("current")).unwrap();
    let request = FileRequest { path: b"/f", ..FileRequest::default() };
    assert_eq!(text(root.answer(&request).unwrap()), "one");
    symlink("two", place.path().join("next")).unwrap();
    fs::rename(place.path().join("next"), place.path().join("current")).unwrap();
    assert_eq!(text(root.answer(&request).unwrap()), "two");
    fs::remove_file(place.path().join("current")).unwrap();
    assert_eq!(status(&root.answer(&request).unwrap()), 404);
}

#[test]
fn an_optional_directory_may_come_later() {
    let place = tempfile::tempdir().unwrap();
    let root = Root::optional(&place.path().join("www"), vec!["index.html".to_owned()]).unwrap();
    let at = |path: &'static str| FileRequest { path: path.as_bytes(), ..FileRequest::default() };
    assert_eq!(status(&root.answer(&at("/")).unwrap()), 404);
    fs::create_dir(place.path().join("www")).unwrap();
    fs::write(place.path().join("www/index.html"), "here").unwrap();
    assert_eq!(text(root.answer(&at("/")).unwrap()), "here");
}

#[test]
fn a_table_gives_files_their_types() {
    let site = Site::new();
    site.write("index.html", "x").write("a.bin", "x");
    let types = FileTypes::new([("html", "text/x-page")], "x/default");
    let root = site.root.clone().with_types(Some(Arc::new(types)));
    let kind = |path: &'static str| {
        let request = FileRequest { path: path.as_bytes(), ..FileRequest::default() };
        match root.answer(&request).unwrap() {
            Answer::File(file) => file.content_type.into_owned(),
            Answer::Status(other) => panic!("{other:?}"),
        }
    };
    assert_eq!((kind("/").as_str(), kind("/a.bin").as_str()), ("text/x-page", "x/default"));
}

#[test]
fn answers_from_the_cache_are_the_same_or_would_block() {
    let site = Site::new();
    site.write("f", numbers(200_000)).write("small", "small").write("index.html", "root");
    for path in ["/f", "/small", "/", "/none", "/../x"] {
        let request = FileRequest { path: path.as_bytes(), ..FileRequest::default() };
        let patient = site.root.answer(&request).unwrap();
        match site.root.answer_cached(&request) {
            Ok(answer) => assert_eq!(status(&answer), status(&patient), "{path}"),
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock, "{path}"),
        }
    }
    let FileBody::Pieces(mut pieces) = file(site.get("/f")).body else { panic!("large") };
    let mut read = Vec::new();
    loop {
        let progress = match pieces.read_cached(&mut read, 30_000) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                pieces.read(&mut read, 30_000).unwrap()
            }
            outcome => outcome.unwrap(),
        };
        if progress == BodyProgress::Done {
            break;
        }
    }
    assert!(read == numbers(200_000));
}

/// The boundary of a multipart body, which differs from response to response.
fn boundary_of(answer: &FileAnswer) -> String {
    answer.content_type.split_once("boundary=").map_or("-", |(_, boundary)| boundary).to_owned()
}

/// The body as text, with the boundary removed.
fn without(boundary: &str, body: &[u8]) -> String {
    body.iter().map(|byte| char::from(*byte)).collect::<String>().replace(boundary, "")
}

#[test]
fn stretches_and_what_is_read_make_up_the_same_bytes() {
    let site = Site::new();
    site.write("f", numbers(300_000));
    let check = |range: Option<&[u8]>, stretches_first: bool| {
        let request = || FileRequest { path: b"/f", range, ..FileRequest::default() };
        let patient = file(site.ask(request()));
        let boundary = boundary_of(&patient);
        let whole = without(&boundary, &bytes(patient.body, 64 * 1024).unwrap());
        let answer = file(site.ask(request()));
        let boundary = boundary_of(&answer);
        let FileBody::Pieces(mut pieces) = answer.body else { panic!("large") };
        let (mut together, mut skipped) = (Vec::new(), 0);
        for turn in 0.. {
            let stretch = pieces.next_stretch(20_000);
            let progress = match stretch.filter(|_| (turn % 2 == 0) == stretches_first) {
                Some(stretch) => {
                    assert!((1..=20_000).contains(&stretch.bytes));
                    // The caller may take less of a stretch than offered.
                    let taken = stretch.bytes.min(15_000);
                    let mut part = vec![0; taken];
                    let read = rustix::io::pread(stretch.file, &mut part, stretch.offset);
                    assert_eq!(read, Ok(taken));
                    together.extend(part);
                    skipped += taken;
                    pieces.skip(taken)
                }
                None => pieces.read(&mut together, 7_000).unwrap(),
            };
            if progress == BodyProgress::Done {
                break;
            }
        }
        assert!(without(&boundary, &together) == whole, "{range:?}");
        assert!(skipped > 100_000, "{skipped}");
    };
    for stretches_first in [true, false] {
        check(None, stretches_first);
        check(Some(b"bytes=1000-250000"), stretches_first);
        check(Some(b"bytes=0-99999,150000-249999"), stretches_first);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_path_escapes(path in r"(/|\.|\.\.|%2e|%2F|%5c|\\|%00|a|canary|out|up|parent|\.\./canary){0,10}") {
        thread_local!(static SITE: Site = escape_site());
        SITE.with(|site| {
            let request = FileRequest { path: path.as_bytes(), target: path.as_bytes(), ..FileRequest::default() };
            for answer in [site.root.answer(&request), site.root.answer_cached(&request)] {
                match answer {
                    Ok(Answer::File(answer)) => {
                        let body = bytes(answer.body, 4096).unwrap();
                        prop_assert_eq!(body, b"inside".to_vec());
                    }
                    Ok(Answer::Status(answer)) => {
                        for (_, value) in answer.headers {
                            prop_assert!(value.starts_with('/') && !value.starts_with("//") && !value.starts_with("/\\"));
                        }
                    }
                    Err(error) => prop_assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn arbitrary_bytes_never_panic(path in proptest::collection::vec(any::<u8>(), 0..80), range in proptest::collection::vec(any::<u8>(), 0..30)) {
        thread_local!(static SITE: Site = escape_site());
        SITE.with(|site| {
            let request = FileRequest { path: &path, target: &path, range: Some(&range), if_range: Some(&range), ..FileRequest::default() };
            if let Ok(Answer::File(answer)) = site.root.answer(&request) {
                prop_assert_eq!(bytes(answer.body, 4096).unwrap(), b"inside".to_vec());
            }
            Ok(())
        })?;
    }
}

/// A site with many links that lead outside, in which every regular file contains `inside`.
fn escape_site() -> Site {
    let site = Site::new();
    for name in ["a/a", "a/index.html", "index.html", "a/canary"] {
        site.write(name, "inside");
    }
    symlink("../canary", site.path("out")).unwrap();
    symlink("../../canary", site.path("a/out")).unwrap();
    symlink("..", site.path("a/up")).unwrap();
    symlink("..", site.path("parent")).unwrap();
    site
}
