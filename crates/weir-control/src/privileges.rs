//! Privileges that a start needs and serving does not (`user`, `group`, `chroot`): once everything
//! is open, root becomes an unprivileged user, irrevocably. It opens nothing, and it does not
//! decide which files a reload may read: from then on the kernel does.
//!
//! ```text
//! root: logs, certificates, sockets, pid file open ─▶ their owner changes ─▶ chroot ─▶ groups
//!       ─▶ group ─▶ user ─▶ no capability but CAP_NET_BIND_SERVICE ─▶ verified
//!       ─▶ the first thread of the data plane
//! ```
//!
//! This happens before the data plane and the admin interface have threads. The C library changes
//! the user of all threads, but capabilities belong to one thread: log threads that exist already
//! keep none, and later threads inherit those of the main thread.

use std::ffi::CString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::unistd::{
    Gid, Group, Uid, User, getgrouplist, getresgid, getresuid, setgroups, setresgid, setresuid,
    setuid,
};
use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, access, chownat, fstat, openat2,
};
use rustix::process::{DumpableBehavior, chdir, chroot, set_dumpable_behavior};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs,
};
use serde::{Deserialize, Serialize};
use weir_config::Config;
use weir_config::model::{ListenAddress, LogTarget};

/// The rights that a process gave up, as its configuration had them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenUpPrivileges {
    user: Option<String>,
    group: Option<String>,
    chroot: Option<PathBuf>,
}

/// The rights that this process gave up.
static GIVEN: OnceLock<GivenUpPrivileges> = OnceLock::new();

/// The rights that its predecessor gave up.
static INHERITED: OnceLock<GivenUpPrivileges> = OnceLock::new();

/// The user that this process is about to become, or is.
static SERVING_USER: OnceLock<u32> = OnceLock::new();

/// The user that serves, if the start was asked to become another user than this process's.
pub(crate) fn serving_user() -> Option<u32> {
    SERVING_USER.get().copied()
}

/// The number of the user that a configuration names.
pub(crate) fn user_of(config: &Config) -> Option<u32> {
    identity(config).ok()?.user.map(Uid::as_raw)
}

/// The rights that this process or its predecessor gave up.
pub(crate) fn given() -> Option<GivenUpPrivileges> {
    GIVEN.get().or_else(|| INHERITED.get()).cloned()
}

/// Notes the rights that the predecessor gave up, before [`Privileges::to_give_up`].
pub(crate) fn inherit(given: GivenUpPrivileges) {
    let _ = INHERITED.set(given);
}

impl GivenUpPrivileges {
    fn wanted(config: &Config) -> Self {
        let Config { user, group, chroot, .. } = config;
        Self { user: user.clone(), group: group.clone(), chroot: chroot.clone() }
    }
}

/// The user and groups that a process becomes.
#[derive(Debug, PartialEq, Eq)]
struct ServingIdentity {
    user: Option<Uid>,
    group: Option<Gid>,
    /// All groups, including the primary one.
    groups: Vec<Gid>,
}

/// The rights that are to be given up.
#[derive(Debug)]
pub(crate) struct Privileges {
    identity: ServingIdentity,
    chroot: Option<PathBuf>,
    wanted: GivenUpPrivileges,
}

impl Privileges {
    /// The rights that this configuration has the process give up, if any. Without the right to
    /// change its user, a process keeps its user with a warning; a `chroot` that cannot be done is
    /// an error, because other files would be served.
    ///
    /// # Errors
    /// One sentence: a user or group that does not exist, or a root directory that cannot be
    /// entered.
    pub(crate) fn to_give_up(config: &Config, warn: fn(&str)) -> Result<Option<Self>, String> {
        let wanted = GivenUpPrivileges::wanted(config);
        let given = given();
        if given.as_ref() == Some(&wanted) {
            if wanted.user.is_some() {
                keep_to_ourselves().map_err(|(call, error)| format!("{call}: {error}"))?;
            }
            return Ok(None);
        }
        let within = given.and_then(|given| given.chroot);
        if within.is_some() && within != wanted.chroot {
            let path = within.unwrap_or_default();
            let path = path.display();
            return Err(format!(
                "`chroot` was {path} when Weir was started, and a process cannot leave it: a change needs a restart"
            ));
        }
        let chroot = wanted.chroot.clone().filter(|_| within.is_none());
        if wanted.user.is_none() && wanted.group.is_none() && chroot.is_none() {
            return Ok(None);
        }
        let identity = identity(config)?;
        if may_change() {
            if let Some(user) = identity.user {
                let _ = SERVING_USER.set(user.as_raw());
            }
            return Ok(Some(Self { identity, chroot, wanted }));
        }
        if let Some(path) = chroot {
            let path = path.display();
            return Err(format!(
                "cannot make {path} the root directory: only root can; start Weir as root, or remove `chroot`"
            ));
        }
        if !identity.is_ours() {
            warn(&format!(
                "`user` and `group` have no effect: Weir was not started by root and keeps uid {}",
                Uid::effective()
            ));
        }
        Ok(None)
    }

    /// The directory that `/` will be.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.chroot.as_deref()
    }

    /// Gives the rights up, for all threads that exist and all later ones. Files that were created
    /// for the configuration are given to the user.
    ///
    /// # Errors
    /// One sentence. This process must not serve then.
    pub(crate) fn give_up(self, config: &Config) -> Result<(), String> {
        self.hand_over(config);
        if let Some(path) = &self.chroot {
            let failed = |error: rustix::io::Errno| {
                format!(
                    "cannot make {} the root directory: {}",
                    path.display(),
                    io::Error::from(error)
                )
            };
            chroot(path).map_err(failed)?;
            chdir("/").map_err(failed)?;
        }
        let who = self.who();
        self.become_it().map_err(|(call, error)| {
            format!(
                "cannot become {who}: {call}: {error}; start Weir as that user, or with CAP_SETUID and CAP_SETGID"
            )
        })?;
        self.verify().map_err(|why| format!("cannot become {who} for good: {why}"))?;
        let _ = GIVEN.set(self.wanted);
        Ok(())
    }

    fn who(&self) -> String {
        match (&self.wanted.user, &self.wanted.group) {
            (Some(user), _) => format!("user {user}"),
            (None, Some(group)) => format!("group {group}"),
            (None, None) => "another user".to_owned(),
        }
    }

    /// Changes the owner of the files that root opened and that have to be reopened later: logs,
    /// the state file, the pid file, Unix sockets.
    fn hand_over(&self, config: &Config) {
        let access = config.logs.iter().flat_map(|log| &log.to);
        let files = access.chain(config.error_logs.iter().map(|log| &log.to));
        let files = files.chain(&config.audit_logs);
        let files = files.filter_map(|target| match target {
            LogTarget::File(path) => Some(path.as_path()),
            LogTarget::Stdout | LogTarget::Stderr | LogTarget::Syslog(_) => None,
        });
        let (state, pid) = (config.state_file.as_deref(), config.pid_file.as_deref());
        let credits = config.cpu_credits.iter().filter_map(|credits| credits.file.as_deref());
        let listeners = config.listeners.iter().flat_map(|listener| &listener.addresses);
        let sockets = listeners.chain(&config.agent).filter_map(ListenAddress::file);
        let ServingIdentity { user, group, .. } = self.identity;
        for path in files.chain(state).chain(pid).chain(credits).chain(sockets) {
            hand_over(path, user, group);
        }
        for admin in &config.admin {
            let (user, group) =
                (user.filter(|_| admin.owner.is_none()), group.filter(|_| admin.group.is_none()));
            if let Some(path) = admin.address.file() {
                hand_over(path, user, group);
            }
        }
    }

    /// # Errors
    /// The call that failed, and its error.
    fn become_it(&self) -> Result<(), (&'static str, io::Error)> {
        let ServingIdentity { user, group, groups } = &self.identity;
        if user.is_some() || group.is_some() {
            setgroups(groups).map_err(|error| ("setgroups", error.into()))?;
        }
        if let Some(group) = *group {
            setresgid(group, group, group).map_err(|error| ("setgid", error.into()))?;
        }
        let Some(user) = *user else { return Ok(()) };
        if user.is_root() {
            return Ok(());
        }
        let kept = capabilities(None).map_err(|error| ("capget", error.into()))?.permitted
            & CapabilitySet::NET_BIND_SERVICE;
        set_keep_capabilities(true).map_err(|error| ("PR_SET_KEEPCAPS", error.into()))?;
        let root = Uid::from_raw(0);
        if !Uid::effective().is_root() {
            // Other threads lose their capabilities only when root changes to another user; a
            // process that has the capabilities without being root becomes root for this moment.
            setresuid(root, root, root).map_err(|error| ("setuid", error.into()))?;
        }
        setresuid(user, user, user).map_err(|error| ("setuid", error.into()))?;
        set_keep_capabilities(false).map_err(|error| ("PR_SET_KEEPCAPS", error.into()))?;
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable: kept };
        set_capabilities(None, sets).map_err(|error| ("capset", error.into()))?;
        if !kept.is_empty() {
            // The process that takes over in an upgrade needs it. Where this is forbidden, that
            // process does without.
            let _ = configure_capability_in_ambient_set(kept, true);
        }
        keep_to_ourselves()
    }

    fn verify(&self) -> Result<(), String> {
        let failed = |error: nix::Error| error.to_string();
        let (users, groups) = (getresuid().map_err(failed)?, getresgid().map_err(failed)?);
        let ServingIdentity { user, group, .. } = self.identity;
        if let Some(user) = user
            && [users.real, users.effective, users.saved].iter().any(|one| *one != user)
        {
            return Err("the user has not changed".to_owned());
        }
        if let Some(group) = group
            && [groups.real, groups.effective, groups.saved].iter().any(|one| *one != group)
        {
            return Err("the group has not changed".to_owned());
        }
        if user.is_some_and(|user| !user.is_root()) && setuid(Uid::from_raw(0)).is_ok() {
            return Err("the process could become root again".to_owned());
        }
        Ok(())
    }
}

impl ServingIdentity {
    /// Returns true if this process has this user and group already.
    fn is_ours(&self) -> bool {
        self.user.is_none_or(|user| user == Uid::effective())
            && self.group.is_none_or(|group| group == Gid::effective())
    }
}

/// The capabilities that a start of the serving process may need: to read keys and write logs of
/// any owner, to change the owner of files, to become the user in its directory, to raise the limit
/// on open files, to bind low ports, and to signal processes of that user.
const START_NEEDS: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SYS_RESOURCE);

/// Gives up, irrevocably, the rights that no start of the serving process needs. The supervisor
/// calls it before the first start, so that a start that would fail for lack of them fails at once
/// and not after a crash.
///
/// # Errors
/// The call that failed, and its error.
pub(crate) fn keep_what_a_start_needs() -> Result<(), (&'static str, io::Error)> {
    set_no_new_privs(true).map_err(|error| ("PR_SET_NO_NEW_PRIVS", error.into()))?;
    let own = capabilities(None).map_err(|error| ("capget", error.into()))?;
    let sets = CapabilitySets {
        effective: own.effective & START_NEEDS,
        permitted: own.permitted & START_NEEDS,
        inheritable: own.inheritable & START_NEEDS,
    };
    set_capabilities(None, sets).map_err(|error| ("capset", error.into()))
}

/// Forbids programs started from here to gain rights, and other processes of this user to read keys
/// from this process's memory.
fn keep_to_ourselves() -> Result<(), (&'static str, io::Error)> {
    set_no_new_privs(true).map_err(|error| ("PR_SET_NO_NEW_PRIVS", error.into()))?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)
        .map_err(|error| ("PR_SET_DUMPABLE", error.into()))
}

/// Returns true if this process may change its user.
fn may_change() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID;
    // Root without these capabilities fails when it tries to change: it must not serve as root.
    Uid::effective().is_root()
        || capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Checks that the configured user, group and root directory exist.
///
/// # Errors
/// One sentence.
pub(crate) fn look_up(config: &Config) -> Result<(), String> {
    if let Some(path) = config.chroot.as_deref().filter(|path| !path.is_dir()) {
        return Err(format!("`chroot`: there is no directory {}", path.display()));
    }
    identity(config).map(drop)
}

fn identity(config: &Config) -> Result<ServingIdentity, String> {
    let group = config.group.as_deref().map(group_called).transpose()?;
    let Some(name) = config.user.as_deref() else {
        return Ok(ServingIdentity { user: None, group, groups: group.into_iter().collect() });
    };
    let number = name.parse().ok().map(Uid::from_raw);
    let known = match number {
        Some(number) => User::from_uid(number),
        None => User::from_name(name),
    };
    let failed = |error: nix::Error| format!("cannot look up the user `{name}`: {error}");
    let Some(known) = known.map_err(failed)? else {
        let user = number.ok_or_else(|| format!("there is no user `{name}`"))?;
        let group = group.ok_or_else(|| {
            format!("the group of user {name} is not known: write `user {name} GROUP;`")
        })?;
        return Ok(ServingIdentity { user: Some(user), group: Some(group), groups: vec![group] });
    };
    let group = group.unwrap_or(known.gid);
    let name = CString::new(known.name).unwrap_or_default();
    let groups = getgrouplist(&name, group).map_err(failed)?;
    Ok(ServingIdentity { user: Some(known.uid), group: Some(group), groups })
}

/// A user by name or number.
///
/// # Errors
/// One sentence.
pub(crate) fn user_called(name: &str) -> Result<Uid, String> {
    if let Ok(number) = name.parse() {
        return Ok(Uid::from_raw(number));
    }
    let known = User::from_name(name);
    let known = known.map_err(|error| format!("cannot look up the user `{name}`: {error}"))?;
    known.map(|user| user.uid).ok_or_else(|| format!("there is no user `{name}`"))
}

/// A group by name or number.
///
/// # Errors
/// One sentence.
pub(crate) fn group_called(name: &str) -> Result<Gid, String> {
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    let known = Group::from_name(name);
    let known = known.map_err(|error| format!("cannot look up the group `{name}`: {error}"))?;
    known.map(|group| group.gid).ok_or_else(|| format!("there is no group `{name}`"))
}

/// Gives a file of root's to another user. A user that may write to its directory must not be able
/// to make root give it a different file: symbolic links are not followed, and a file with a second
/// name is left alone. Files that are not handed over are reported by [`out_of_reach`].
fn hand_over(path: &Path, user: Option<Uid>, group: Option<Gid>) {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(file) = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS) else {
        return;
    };
    let Ok(stat) = fstat(&file) else { return };
    let kind = FileType::from_raw_mode(stat.st_mode);
    if !matches!(kind, FileType::RegularFile | FileType::Socket) || stat.st_nlink != 1 {
        return;
    }
    let user =
        user.filter(|_| stat.st_uid == 0).map(|user| rustix::fs::Uid::from_raw(user.as_raw()));
    let group =
        group.filter(|_| stat.st_gid == 0).map(|group| rustix::fs::Gid::from_raw(group.as_raw()));
    let _ = chownat(&file, "", user, group, AtFlags::EMPTY_PATH);
}

/// The files that reloads, upgrades and USR1 will need and that this process cannot access any
/// more, one sentence each. `read` has the files that the configuration was made of, beginning with
/// the configuration itself.
pub(crate) fn out_of_reach(config: &Config, read: &[PathBuf]) -> Vec<String> {
    let who = format!("uid {}", Uid::effective());
    let within = match &config.chroot {
        Some(path) => format!(" within {}", path.display()),
        None => String::new(),
    };
    let wants = |path: &Path, rights: Access| access(path, rights).map_err(io::Error::from);
    let mut sentences = Vec::new();
    for path in read {
        let Err(error) = wants(path, Access::READ_OK) else { continue };
        let shown = path.display();
        sentences.push(format!(
            "{who} cannot read {shown}{within}: {error}; reloads and upgrades will be rejected"
        ));
        if sentences.len() == MOST_FILES {
            break;
        }
    }
    let logs = config.logs.iter().flat_map(|log| &log.to);
    let logs = logs.chain(config.error_logs.iter().map(|log| &log.to));
    for target in logs.chain(&config.audit_logs) {
        let LogTarget::File(path) = target else { continue };
        // A log that was renamed or removed is created again.
        if let Err(error) = wants(path, Access::WRITE_OK)
            && (path.exists() || config.chroot.is_some())
        {
            let shown = path.display();
            sentences.push(format!(
                "{who} cannot write {shown}{within}: {error}; it stays open, but USR1 and upgrades cannot reopen it"
            ));
        }
    }
    let beside = |path: &Path| {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        wants(directory.unwrap_or(Path::new(".")), Access::WRITE_OK | Access::EXEC_OK)
    };
    if let Some(path) = &config.state_file
        && let Err(error) = beside(path)
    {
        let shown = path.display();
        sentences.push(format!(
            "{who} cannot write in the directory of {shown}{within}: {error}; changes made at run time cannot be kept there"
        ));
    }
    if let Some(path) = config.cpu_credits.as_ref().and_then(|credits| credits.file.as_deref())
        && let Err(error) = beside(path)
    {
        let shown = path.display();
        sentences.push(format!(
            "{who} cannot write in the directory of {shown}{within}: {error}; the account of cpu credits cannot be kept there"
        ));
    }
    if let Some(path) = &config.pid_file
        && wants(path, Access::WRITE_OK).is_err()
        && let Err(error) = beside(path)
    {
        let shown = path.display();
        sentences.push(format!(
            "{who} cannot write {shown}{within}: {error}; an upgrade will be rejected"
        ));
    }
    sentences
}

/// The most unreadable files listed one by one; where one is missing, all may be.
const MOST_FILES: usize = 3;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn config(text: &str) -> Config {
        let text = format!("{text} listen 127.0.0.1:0 -> respond 204;");
        weir_config::parse_str("test", &text).unwrap().config
    }

    #[test]
    fn names_and_numbers_lead_to_users_and_groups() {
        let check = |text: &str, expected: Result<(Option<u32>, Option<u32>), &str>| {
            let found = identity(&config(text));
            let found =
                found.map(|found| (found.user.map(Uid::as_raw), found.group.map(Gid::as_raw)));
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        check("user root;", Ok((Some(0), Some(0))));
        check("user 0;", Ok((Some(0), Some(0))));
        check("user root 77;", Ok((Some(0), Some(77))));
        check("group root;", Ok((None, Some(0))));
        check("user no-such-user;", Err("there is no user `no-such-user`"));
        check("user root no-such-group;", Err("there is no group `no-such-group`"));
        check("user 3999999 7;", Ok((Some(3_999_999), Some(7))));
        let unknown = "the group of user 3999999 is not known: write `user 3999999 GROUP;`";
        check("user 3999999;", Err(unknown));
        assert!(look_up(&config("user root; chroot /no/such/place;")).is_err());
    }

    #[test]
    fn a_file_is_handed_over_unless_its_name_might_mean_another() {
        if !crate::files::runs_as_root("only root can give files away") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let owner =
            |name: &str| path(name).metadata().map(|data| (data.uid(), data.gid())).unwrap();
        for name in ["log", "target", "twice", "theirs"] {
            std::fs::write(path(name), "").unwrap();
        }
        symlink(path("target"), path("link")).unwrap();
        std::fs::hard_link(path("twice"), path("second")).unwrap();
        std::os::unix::fs::chown(path("theirs"), Some(7), Some(8)).unwrap();
        for name in ["log", "link", "second", "theirs", "."] {
            hand_over(&path(name), Some(Uid::from_raw(77)), Some(Gid::from_raw(78)));
        }
        assert_eq!(owner("log"), (77, 78));
        assert_eq!(owner("target"), (0, 0), "a link was followed");
        assert_eq!(owner("twice"), (0, 0), "a second name was taken for the first");
        assert_eq!(owner("theirs"), (7, 8), "somebody else's file was given away");
        assert_eq!(owner("."), (0, 0));
    }
}
