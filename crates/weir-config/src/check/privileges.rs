//! Checks `user`, `group` and `chroot`. The existence of the user is checked by `weir check` and at
//! the start, because the configuration may be for another machine.

use super::arguments::Arguments;
use super::checker::Checker;
use crate::diagnostic::Diagnostic;
use crate::model::{Config, values};

impl<'a> Checker<'a> {
    pub(super) fn privileges(&mut self, top: &[Arguments<'a>], config: &mut Config) {
        let line = |name| top.iter().find(|arguments: &&Arguments<'a>| arguments.name() == name);
        let (user, group, chroot) = (line("user"), line("group"), line("chroot"));
        if let Some(user) = user {
            config.user = user.word(0).and_then(|value| self.value(value, values::name));
            config.group = user.word(1).and_then(|value| self.value(value, values::name));
        }
        if let Some(value) = group.and_then(|line| line.word(0)) {
            if let Some(first) = user.and_then(|line| line.word(1)) {
                let error = Diagnostic::error(value.span(), "the group is given already");
                self.report(error.related(first.span(), "first here"));
            }
            config.group = self.value(value, values::name);
        }
        let Some(chroot) = chroot else { return };
        config.chroot = chroot.word(0).and_then(|value| self.file(value));
        if config.user.is_none() && !self.is_wrong() {
            let warning = Diagnostic::warning(
                chroot.span(),
                "`chroot` without `user` gives no protection: Weir keeps running as root, and root can leave a chroot",
            );
            self.report(warning.help("add `user weir;`"));
        }
    }
}
