//! The table of the directives of experiment files: every word once, with its blocks, its number of
//! words, description and example. The reader and the reference page are derived from it.

use std::fmt::Write;

/// The number of words of a directive that takes any number.
pub(super) const MANY: usize = usize::MAX;

/// A block of an experiment file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabBlock {
    /// Outside every block.
    Top,
    /// In `client { … }`, `proxy { … }`, `origin { … }` or `beside { … }`.
    Role,
    /// In `candidate NAME { … }`.
    Candidate,
    /// In the block of a `config`.
    Config,
    /// In `workload NAME { … }`.
    Workload,
    /// In `quick { … }` outside every block.
    Quick,
    /// In the `quick { … }` of a workload.
    QuickWorkload,
}

impl LabBlock {
    const ALL: [Self; 7] = [
        Self::Top,
        Self::Role,
        Self::Candidate,
        Self::Config,
        Self::Workload,
        Self::Quick,
        Self::QuickWorkload,
    ];

    /// The place in the words of messages.
    pub(super) fn place(self) -> &'static str {
        match self {
            Self::Top => "at the top level",
            Self::Role => "in a role",
            Self::Candidate => "in `candidate`",
            Self::Config => "in `config`",
            Self::Workload => "in `workload`",
            Self::Quick => "in `quick`",
            Self::QuickWorkload => "in the `quick` of a workload",
        }
    }
}

/// One directive.
#[derive(Clone, Copy, Debug)]
pub(super) struct LabDirective {
    pub(super) name: &'static str,
    pub(super) blocks: &'static [LabBlock],
    pub(super) syntax: &'static str,
    /// The fewest and the most words.
    pub(super) words: (usize, usize),
    /// The block that it may have, and whether it has to have one.
    pub(super) block: Option<(LabBlock, bool)>,
    /// Set if it may stand in a block more than once.
    pub(super) is_repeatable: bool,
    pub(super) doc: &'static str,
}

const fn row(
    name: &'static str,
    blocks: &'static [LabBlock],
    syntax: &'static str,
    doc: &'static str,
) -> LabDirective {
    LabDirective { name, blocks, syntax, words: (1, 1), block: None, is_repeatable: false, doc }
}

impl LabDirective {
    const fn words(mut self, least: usize, most: usize) -> Self {
        self.words = (least, most);
        self
    }

    const fn block(mut self, block: LabBlock) -> Self {
        self.block = Some((block, true));
        self
    }

    const fn optional_block(mut self, block: LabBlock) -> Self {
        self.block = Some((block, false));
        self
    }

    const fn many(mut self) -> Self {
        self.is_repeatable = true;
        self
    }
}

const TOP: &[LabBlock] = &[LabBlock::Top];
const ROLE: &[LabBlock] = &[LabBlock::Role];
const CANDIDATE: &[LabBlock] = &[LabBlock::Candidate];
const PROGRAM: &[LabBlock] = &[LabBlock::Role, LabBlock::Candidate];
const WORKLOAD: &[LabBlock] = &[LabBlock::Workload];
const SIZED: &[LabBlock] = &[LabBlock::Workload, LabBlock::QuickWorkload];
const REPEATED: &[LabBlock] = &[LabBlock::Top, LabBlock::Quick];

/// The table.
pub(super) const DIRECTIVES: &[LabDirective] = &[
    row("title", TOP, "title TEXT;", "The title of the report."),
    row("question", TOP, "question TEXT;", "The question that the experiment answers."),
    row(
        "source",
        TOP,
        "source TEXT;",
        "The published comparison that the experiment repeats, or the claim that it examines.",
    ),
    row("repeats", REPEATED, "repeats N;", "The number of runs of each candidate at each level: 1 to 100, 3 if not given."),
    row(
        "order",
        TOP,
        "order interleaved|consecutive;",
        "`interleaved`, the default: the candidates take turns, and every second round goes the other way round. \
        `consecutive`: all runs of a candidate at a level follow each other.",
    ),
    row("seed", TOP, "seed N;", "The seed of the generator's random numbers; 1 if not given."),
    row(
        "stop",
        TOP,
        "stop proxy_cpu>=98% [each];",
        "No higher level is measured once the median of the runs at a level meets the condition: `proxy_cpu>=98%`, or a percentile \
        over a limit, as `p99>100ms`. The first candidate stops all of them, so that all have the same levels; with `each` a \
        candidate stops only itself.",
    )
    .words(1, 2)
    .many(),
    row(
        "budget",
        TOP,
        "budget p99.9<=20ms;",
        "The latency budget of the knee: the highest rate of a candidate within it.",
    ),
    row(
        "refine",
        REPEATED,
        "refine N;",
        "The number of bisections between the last rate within the budget and the first one over it, for each candidate: 0 to 10, 0 if not given.",
    ),
    row(
        "judge",
        TOP,
        "judge FIGURE…;",
        "The figures by which candidates are judged: percentiles such as `p99`, `mean`, and `cpu`, the proxy's CPU time per request. \
        If not given: `p50 p99 p99.9 cpu`.",
    )
    .words(1, 8),
    row(
        "network",
        TOP,
        "network 600mbit;",
        "The bandwidth of the network that the experiment assumes, where this machine has none between the roles: a run whose responses \
        use 90 % of it is limited by the network. Interfaces with a known speed are watched in any case.",
    ),
    row(
        "link",
        TOP,
        "link [delay=20ms] [jitter=1ms] [loss=0.1%] [rate=100mbit];",
        "The link between the client and the proxy, instead of the machine's loopback interface: delay, its variation, the share of \
        packets that are lost, and bandwidth, each in each direction. Proxy and origin stay beside each other. The experiment runs in \
        a network namespace of its own, as root, with `tc` of Debian's iproute2; delay and loss need a kernel with netem.",
    )
    .words(1, 4),
    row(
        "credits",
        REPEATED,
        "credits baseline=40% start=60m max=576m;",
        "Makes a machine with processor credits of the proxy's cores, by a control group with a quota: it earns the baseline, a share \
        of one core, and is held to it when no credits are left. Credits are written as time of one core; a minute is a credit of \
        the clouds. Each candidate gets a new machine at each level. `max` is the start if not given.",
    )
    .words(2, 3),
    row("direct", TOP, "direct on|off;", "Whether runs without a proxy are made, as the floor of all others; on if not given."),
    row("client", TOP, "client { … }", "The load generator's cores.").words(0, 0).block(LabBlock::Role),
    row("proxy", TOP, "proxy { … }", "The cores of the proxy under test.").words(0, 0).block(LabBlock::Role),
    row(
        "origin",
        TOP,
        "origin [NAME] { … }",
        "A server behind the proxy. Without a `command` it is `weir origin` with a port for HTTP, `${port_origin}`, and one for HTTPS, \
        `${port_origin_tls}`. Without any `origin` there is one of these.",
    )
    .words(0, 1)
    .block(LabBlock::Role)
    .many(),
    row(
        "beside",
        TOP,
        "beside NAME { … }",
        "A program that runs beside every measurement, such as slow clients. It starts when the proxy is ready.",
    )
    .block(LabBlock::Role)
    .many(),
    row("candidate", TOP, "candidate NAME { … }", "A program to compare. The first one is the one that others are compared with.")
        .block(LabBlock::Candidate)
        .many(),
    row("workload", TOP, "workload NAME { … }", "A load. With several, each candidate is measured under each.")
        .block(LabBlock::Workload)
        .many(),
    row("quick", TOP, "quick { … }", "What `--quick` changes.").words(0, 0).block(LabBlock::Quick),
    row(
        "cpus",
        ROLE,
        "cpus 0-3|half|rest|all;",
        "The cores of the role: a list, the first `half` of those that are allowed, the `rest` of them, or `all`. \
        If not given: `half` for the proxy, `rest` for others.",
    ),
    row(
        "program",
        PROGRAM,
        "program NAME;",
        "The program that has to be there, by its name in PATH or its path; the first word of `command` if not given.",
    ),
    row("package", PROGRAM, "package NAME;", "The Debian package that brings it; the program's name if not given."),
    row("version", PROGRAM, "version COMMAND…;", "The command that prints the program's version.").words(1, MANY),
    row(
        "config",
        CANDIDATE,
        "config FILE [{ … }]",
        "A configuration as it is printed, named relative to the experiment file. It is written to `${dir}` under its own name, with \
        the replacements of its block and with placeholders filled in.",
    )
    .optional_block(LabBlock::Config)
    .many(),
    row(
        "map",
        &[LabBlock::Config],
        "map TEXT REPLACEMENT [REASON];",
        "Replaces a text of the printed configuration, wherever it stands. The report lists the replacements. A text that the file \
        does not have is an error.",
    )
    .words(2, 3)
    .many(),
    row(
        "command",
        PROGRAM,
        "command PROGRAM ARGUMENT…;",
        "The command that starts the program, which must stay in the foreground. Placeholders: `${weir}` (this program), `${dir}` \
        (a directory of the run), `${port}` (the port under test), `${port_NAME}` (further ports), `${cert}`, `${key}` and \
        `${bundle}` (a P-256 certificate for localhost, its key, and both in one file), `${cores}` (the number of the role's \
        cores), `${instance}` (the number of the process, from 1).",
    )
    .words(1, MANY),
    row(
        "ready",
        PROGRAM,
        "ready PORT…;",
        "The ports, by the names of their placeholders, that have to accept connections before the measurement; `port` of a \
        candidate and the ports of an origin's command if not given.",
    )
    .words(1, 16),
    row(
        "instances",
        CANDIDATE,
        "instances N|cores;",
        "Starts the command so many times, each on a core of its own; `cores`: once for each core of the proxy.",
    ),
    row("note", CANDIDATE, "note TEXT;", "A remark for the report.").many(),
    row("path", WORKLOAD, "path PATH;", "The path and query of the requests; `/1k` if not given."),
    row(
        "tls",
        WORKLOAD,
        "tls 1.2|1.3 [SUITE];",
        "Requests go over TLS of this version, with this cipher suite. Without it they are plain.",
    )
    .words(1, 2),
    row(
        "http2",
        WORKLOAD,
        "http2 N;",
        "Requests go over HTTP/2, up to so many at once on each connection; with `tls` only; direct runs need an origin that speaks it too. Without it they go over HTTP/1.1.",
    ),
    row("connections", SIZED, "connections N;", "The number of connections; 50 if not given."),
    row("threads", WORKLOAD, "threads N;", "The number of the generator's threads; 1 if not given."),
    row("duration", SIZED, "duration TIME;", "The length of a run; 10s if not given."),
    row("warmup", SIZED, "warmup TIME;", "The same load before each run, which is no part of it; 1s if not given."),
    row("timeout", WORKLOAD, "timeout TIME;", "The longest wait for a response; 2s if not given."),
    row("arrival", WORKLOAD, "arrival constant|poisson;", "The distribution of the intended starts; constant if not given."),
    row(
        "rates",
        SIZED,
        "rates 1000..10000:1000 12000; | rates 50% 80% 100% of NAME…;",
        "The rates in requests per second, as a list of numbers and of ranges with a step. Or shares of the saturation rate of the \
        first of the named candidates to be saturated: the smallest rate that a closed loop reaches with them.",
    )
    .words(1, 64),
    row(
        "concurrency",
        SIZED,
        "concurrency 3 10 30;",
        "A closed loop instead of rates: so many connections, each with one request at a time.",
    )
    .words(1, 32),
    row("requests", SIZED, "requests N;", "The number of requests of a run in a closed loop; 1000 if not given."),
    row("keepalive", WORKLOAD, "keepalive on|off;", "Off: a new connection for each request, with a full handshake."),
    row(
        "soak",
        WORKLOAD,
        "soak [memory<=2%] [files<=5] [threads<=1] [p99<=10%];",
        "A long run that looks for leaks and drift: the report has the trend of memory, open files and threads of the proxy and the \
        server, and that of p99, each with its interval, after the first quarter of the run. Growth over the rest of it up to the \
        limits counts as steady.",
    )
    .words(0, 4),
    row(
        "event",
        WORKLOAD,
        "event TIME signal ROLE SIGNAL; | event TIME [every=TIME until=TIME] run COMMAND…;",
        "Something that happens in each run, at a time since the generator started: a signal (STOP, CONT, HUP, TERM, KILL, USR1, USR2) to a role (the proxy, \
        or an origin or program by its name), or a command.",
    )
    .words(3, MANY)
    .many(),
    row("quick", WORKLOAD, "quick { … }", "What `--quick` changes in this workload.")
        .words(0, 0)
        .block(LabBlock::QuickWorkload),
];

/// The directive with that name in that block.
pub(super) fn find(name: &str, block: LabBlock) -> Option<&'static LabDirective> {
    DIRECTIVES.iter().find(|row| row.name == name && row.blocks.contains(&block))
}

/// The directives of a block.
pub(super) fn of_block(block: LabBlock) -> impl Iterator<Item = &'static LabDirective> {
    DIRECTIVES.iter().filter(move |row| row.blocks.contains(&block))
}

/// The reference page of experiment files, as Markdown.
pub fn reference() -> String {
    let mut out = String::from(
        "# Experiment files\n\nGenerated from the source; not edited by hand. The syntax is that of Weir's \
        configuration: words, `;` and blocks in braces. [measuring.md](../measuring.md#the-laboratory) explains \
        how experiments are run.\n",
    );
    for block in LabBlock::ALL {
        let _ = writeln!(
            out,
            "\n## Directives {}\n\n| directive | meaning |\n| --- | --- |",
            block.place()
        );
        for row in of_block(block) {
            let syntax = row.syntax.replace('|', "\\|");
            let _ = writeln!(out, "| `{syntax}` | {} |", row.doc.replace('|', "\\|"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{DIRECTIVES, LabBlock, find, reference};

    #[test]
    fn every_directive_is_found_in_its_blocks_only_once_and_is_on_the_page() {
        for row in DIRECTIVES {
            for block in row.blocks {
                let same = DIRECTIVES
                    .iter()
                    .filter(|other| other.name == row.name && other.blocks.contains(block));
                assert_eq!(same.count(), 1, "{} {}", row.name, block.place());
            }
            assert!(row.syntax.starts_with(row.name), "{}", row.syntax);
            assert!(row.doc.ends_with('.'), "{}", row.doc);
        }
        assert!(find("path", LabBlock::Top).is_none());
        let page = reference();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/experiments/reference.md");
        if std::env::var_os("WEIR_BLESS").is_some() {
            std::fs::write(path, &page).unwrap();
        }
        let written = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == page,
            "docs/experiments/reference.md is not up to date: WEIR_BLESS=1 writes it"
        );
    }
}
