//! Sections of type `registration`: how we are known at a trunk.

use super::{MANY, Reader, effective};
use crate::accounts::{Account, Kind, no_counterpart};
use crate::ini::{Entry, Section};
use crate::uri::uri;
use crate::values::{Value, host, name, peer, seconds};

impl<'s> Reader<'s, '_> {
    /// A registration belongs to a trunk: the one it names, the one with the same account, or the
    /// one at the same address; or it is a trunk of its own.
    pub(super) fn registration(&mut self, section: &'s Section) {
        let entries = effective(section, MANY);
        let value = |key: &str| entries.iter().copied().find(|entry| entry.key == key);
        let server = value("server_uri").map(|entry| (entry, uri(&entry.value)));
        let outbound = value("outbound_auth");
        let server = server.map(|(entry, uri)| (entry, peer(&uri.host), uri));
        let peer = server.as_ref().and_then(|(_, peer, _)| peer.as_ref().ok());
        let peer = peer.map(ToString::to_string);
        let endpoint = value("endpoint");
        let known = self.trunk_of(endpoint, outbound, peer.as_deref());
        let mut account = match known {
            Some(at) => self.out.accounts.remove(at),
            None => {
                let mut account = Account::new(Kind::Trunk, &section.name, section.place);
                if let Some(peer) = &peer {
                    account.set_text("peer", peer.clone());
                }
                account
            }
        };
        if let Some(endpoint) = endpoint.filter(|entry| entry.value != account.name) {
            let reason = "there is no such endpoint that is a trunk and does not register yet";
            account.refuse(endpoint.place, reason);
        }
        if known.is_some() {
            self.report.note(section.place, format!("it is part of trunk '{}'", account.name));
        }
        if !account.has("user") {
            for auth in self.referred("auth", outbound, &mut account) {
                self.proof(auth, &mut account);
            }
        } else if let Some(entry) = outbound {
            self.find("auth", entry, &entry.value, &mut account);
        }
        match server {
            Some((entry, read, uri)) => {
                if let Some(transport) = &uri.transport {
                    account.set_transport(entry.place, transport);
                }
                match read {
                    Ok(peer) if account.has("user") => {
                        account.set_text("register", peer.to_string());
                    }
                    Ok(_) => {
                        account.refuse(entry.place, "to register needs a user and a password");
                    }
                    Err(why) => account.refuse(entry.place, why),
                }
            }
            None => account.refuse(section.place, "a registration needs `server_uri`"),
        }
        for entry in &entries {
            self.registration_setting(entry, &mut account);
        }
        match known {
            Some(at) => self.out.accounts.insert(at, account),
            None => self.out.accounts.push(account),
        }
    }

    /// The trunk that a registration belongs to; one registers once.
    fn trunk_of(
        &self,
        endpoint: Option<&Entry>,
        outbound: Option<&Entry>,
        peer: Option<&str>,
    ) -> Option<usize> {
        let auth = outbound.map(|entry| entry.value.as_str());
        let find = |is_it: &dyn Fn(&Account) -> bool| {
            self.out.accounts.iter().position(|account| {
                let is_free = account.wrong.is_none() && !account.has("register");
                account.kind == Kind::Trunk && is_free && is_it(account)
            })
        };
        endpoint
            .and_then(|endpoint| find(&|account| account.name == endpoint.value))
            .or_else(|| find(&|account| auth.is_some() && account.auth.as_deref() == auth))
            .or_else(|| {
                find(&|account| {
                    let is_open = account.auth.is_none() || account.auth.as_deref() == auth;
                    is_open && peer.is_some() && account.text("peer") == peer
                })
            })
    }

    fn registration_setting(&mut self, entry: &Entry, account: &mut Account) {
        match entry.key.as_str() {
            "type" | "server_uri" | "outbound_auth" => {}
            "line" | "endpoint" => {
                let reason = "no counterpart is needed: its calls come to `contact_user`";
                self.report.note(entry.place, reason);
            }
            "transport" => self.transport_of(entry, account),
            "client_uri" => {
                let uri = uri(&entry.value);
                client(entry, account, "from_user", &uri.user, name);
                let shown = peer(&uri.host).ok().map(|peer| peer.host());
                let server = account.text("register").and_then(|server| peer(server).ok());
                let is_server = server.is_some_and(|server| Some(server.host()) == shown);
                if !is_server {
                    let domain = uri.host.split(':').next().unwrap_or_default();
                    client(entry, account, "from_domain", domain, host);
                }
            }
            "contact_user" => account.settle("contact_user", entry.place, name(&entry.value)),
            "expiration" => {
                account.settle("expires", entry.place, seconds(&entry.value, 30, 86_400));
            }
            key => account.refuse(entry.place, no_counterpart(key)),
        }
    }
}

/// What the From of a registration shows, and of calls too; what was said first counts.
fn client(
    entry: &Entry,
    account: &mut Account,
    key: &'static str,
    text: &str,
    read: fn(&str) -> Result<Value, String>,
) {
    let is_user = key == "from_user" && account.text("user") == Some(text);
    match account.text(key) {
        _ if text.is_empty() => {}
        None if is_user => {}
        None => account.settle(key, entry.place, read(text)),
        Some(known) if known == text => {}
        Some(_) => {
            account.refuse(entry.place, "calls and the registration have one From here");
        }
    }
}
