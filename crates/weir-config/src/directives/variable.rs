//! Directives that define variables. The checks are in `check/variable.rs`.

use super::spec::{BlockRule, OptionSpec, Spec, TOP, directive, flag, option};

/// The directives, in the order of the reference page.
pub(super) const DIRECTIVES: &[Spec] = &[
    directive("map", TOP, "SOURCE $NAME", "Defines a variable whose value is looked up: the text SOURCE, which may contain `$variables`, is compared with the keys of the block. A key is an exact text, `~regex` or `~*regex` (case-insensitive); `\\` before a key takes it as it is. Exact keys come before regexes, of which the first one in the file decides. `default VALUE;` is the value where no key matches, otherwise it is empty. A value may contain `$variables`, and `$1` to `$9` and `$name` for the groups of its regex. The variable may be used wherever variables may, in any order of definitions, and is evaluated only where a request needs it. All maps together have at most 1,000,000 entries, and one map has at most 1,000 regexes.")
        .words(2, 2)
        .options(MAP)
        .block(BlockRule::Entries)
        .many()
        .example("map $host $backend hosts { *.example.com app; ~^beta beta; default web; }"),
    directive("split", TOP, "KEY $NAME", "Defines a variable that has one of several values: the hash of the text KEY decides, so that one key always has the same value. The lines are shares, `10% VALUE;`, and `* VALUE;` for the rest. Hash and arithmetic are those of nginx's `split_clients`.")
        .words(2, 2)
        .block(BlockRule::Entries)
        .many()
        .example("split $remote_addr $variant { 10% canary; * stable; }"),
    directive("convert", TOP, "TEXT $NAME", CONVERT)
        .words(2, 2)
        .block(BlockRule::Steps)
        .many()
        .example("convert $http_host $tenant { host_only; lower; field 1 .; }"),
];

const CONVERT: &str = "Defines a variable whose value is another text after converters, in order. Their names and results are those of HAProxy where it has them: `lower`, `upper`, `length`, `bytes OFFSET [LENGTH]`, `field N DELIMITERS [COUNT]`, `word N DELIMITERS [COUNT]` (never empty ones; a negative N counts from the end), `ltrim CHARACTERS`, `rtrim CHARACTERS`, `regsub REGEX TEXT [gi]` (`\\1` is a group), `url_dec [1]`, `url_enc`, `hex`, `hex_number DIGITS` (a number in at least so many hexadecimal digits), `hex_address` (the bytes of an IP address), `base64`, `b64dec`, `ub64enc`, `ub64dec`, `json [utf8 | utf8s]`, `host_only`, `port_only`, `ipmask BITS [BITS]`, `crc32 [1]`, `djb2 [1]`, `sdbm [1]`, `wt6 [1]`, `xxh32 [SEED]`, `add N`, `sub N`, `mul N`, `div N`, `mod N`, `and N`, `or N`, `xor N`, `neg`, `cpl`, `even`, `odd`, `bool`, `not`, `iif YES NO`. Of a comma-separated list `list_item N` takes one item and `list_count` counts them; `param NAME` is a parameter of a query, `cookie NAME` one of a `Cookie`. Tests give 1 or 0: `range FIRST..LAST…`, `matches REGEX`, `network NETWORK…`; after `any_item` they hold if one item of a list passes, after `any_param NAME` and `any_cookie NAME` if one of several parameters or cookies of that name does; with `until_none` behind it an item for which a converter has no result is the last one. `lookup $MAP` is the value that a `map` has for the text, whatever the source of the map. `strcmp TEXT` is negative, 0 or positive as C's, `secure_memcmp TEXT` is 1 for an equal text and takes as long for others. TEXT and the N of `add` and the other calculations may have `$variables`. Without a value, such as that of a header that was not sent, there is no result, unless `default TEXT` gives one.";

const MAP: &[OptionSpec] = &[
    flag("ignore_case", "Exact keys are compared without regard to case."),
    flag(
        "hosts",
        "Keys are host names: `*.example.com` is every name below, `.example.com` also that name, `www.example.*` every name that begins so. An exact name comes first, then the longest wildcard. Case and a trailing dot of SOURCE do not matter.",
    ),
    flag(
        "networks",
        "Keys are networks or addresses; the longest one that contains the address SOURCE decides.",
    ),
    option(
        "file",
        "PATH",
        "",
        "A file with further entries, one in a line: the key, white space, the value. Lines that begin with `#` are left out.",
    ),
];
