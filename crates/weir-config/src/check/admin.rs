//! Checks `admin ADDRESS;` and `state_file FILE;`. It opens neither.

use super::arguments::Arguments;
use super::checker::Checker;
use super::listen::listened_already;
use crate::defaults;
use crate::diagnostic::Diagnostic;
use crate::directives::Context;
use crate::model::{
    AdminAccess, AdminListener, AdminTls, Certificate, Config, ListenAddress, RoleGrant, values,
};

impl<'a> Checker<'a> {
    /// Checks the admin lines. They come after the listeners, so that an address in use by both is
    /// reported at the admin line.
    pub(super) fn admins(&mut self, top: &[Arguments<'a>], config: &mut Config) {
        let lines = top.iter().filter(|arguments| arguments.name() == "admin");
        config.admin = lines.filter_map(|line| self.admin(line)).collect();
        let file = top.iter().find(|arguments| arguments.name() == "state_file");
        let Some(file) = file else { return };
        config.state_file = file.word(0).and_then(|value| self.file(value));
        if config.admin.is_empty() && !self.is_wrong() {
            let warning = Diagnostic::warning(
                file.span(),
                "`state_file` has no effect: without `admin` there are no changes at run time",
            );
            self.report(warning.help("add `admin unix:/run/weir/admin.sock;`"));
        }
    }

    /// Returns the address of a line `… ADDRESS [mode=MODE]` and reports it if another line has it.
    /// Without `mode=` a socket has `mode`.
    pub(super) fn own_address(
        &mut self,
        line: &Arguments<'a>,
        mode: Option<u32>,
    ) -> Option<ListenAddress> {
        let value = line.word(0)?;
        let mode = self.setting(line, "mode", values::mode).or(mode);
        let text = self.address_text(value);
        let address = self.value(value, |_| values::listen_address(&text, mode))?;
        if let Some(first) = self.address_taken(&address) {
            self.report(listened_already(value, &address, first));
        }
        self.addresses.insert(address.clone(), value.span());
        let has_file = address.file().is_some();
        if let Some(mode) = line.option("mode").filter(|_| !has_file) {
            let message = "`mode=` applies to Unix sockets with a file only";
            self.report(Diagnostic::error(mode.word.span, message));
        }
        Some(address)
    }

    fn admin(&mut self, line: &Arguments<'a>) -> Option<AdminListener> {
        let value = line.word(0)?;
        let address = self.own_address(line, Some(defaults::ADMIN_MODE))?;
        let listener = AdminListener {
            address,
            owner: self.setting(line, "owner", values::name),
            group: self.setting(line, "group", values::name),
            access: if line.flag("read_only") { AdminAccess::ReadOnly } else { AdminAccess::Write },
            token_file: line.option("token_file").and_then(|value| self.file(value)),
            names: self.setting(line, "name", values::own_names).unwrap_or_default(),
            tls: self.admin_tls(line),
            roles: self.roles(line),
        };
        if let Some((field, message)) = listener.objection() {
            let missing = field == "token_file" && listener.token_file.is_none();
            if missing && line.option("token_file").is_some() {
                return None;
            }
            // Roles are lines of the block.
            let option = (field != "role").then(|| line.option(field)).flatten();
            let place = option.map_or(value.span(), |option| option.word.span);
            let mut error = Diagnostic::error(place, message);
            if missing {
                error = error
                    .help("add `token_file=FILE`, or `read_only` to allow reading without a token");
            }
            self.report(error);
            return None;
        }
        Some(listener)
    }

    fn admin_tls(&mut self, line: &Arguments<'a>) -> Option<AdminTls> {
        let files = ["certificate", "key", "client_ca"];
        let Some(word) = line.option("tls") else {
            if let Some(option) = files.into_iter().find_map(|name| line.option(name)) {
                let error = Diagnostic::error(option.word.span, "this has no effect without `tls`");
                self.report(error);
            }
            return None;
        };
        let Some(chain) = line.option("certificate") else {
            let error = Diagnostic::error(word.word.span, "`tls` needs a certificate");
            self.report(error.help("add `certificate=FILE key=FILE`"));
            return None;
        };
        let key = line.option("key").map(|value| self.path(value));
        let certificate = Certificate { chain: self.path(chain), key };
        let client_ca = line.option("client_ca").map(|value| self.path(value));
        Some(AdminTls { certificate, client_ca })
    }

    fn roles(&mut self, line: &Arguments<'a>) -> Vec<RoleGrant> {
        let mut roles = Vec::new();
        for grant in self.block(line.block(), Context::Admin) {
            let Some(word) = grant.word(0) else { continue };
            let Some(role) = self.value(word, values::role) else { continue };
            roles.push(RoleGrant {
                role,
                user: self.setting(&grant, "user", values::name),
                token_file: grant.option("token_file").map(|value| self.path(value)),
                certificate: self.setting(&grant, "certificate", values::name),
                password: grant.option("password").map(|value| value.text().to_owned()),
            });
        }
        roles
    }
}
