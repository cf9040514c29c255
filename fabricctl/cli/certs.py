"""``fabricctl certs``: list, show and revoke certificates."""

from __future__ import annotations

import getpass
import time

import click

from fabricctl.cli import stored
from fabricctl.cli.common import emit_json, json_option
from fabricctl.cli.exits import Exit
from fabricctl.errors import UsageError
from fabricctl.model.certificate import Certificate
from fabricctl.model.verdict import Outcome
from fabricctl.model.words import quoted
from fabricctl.plugin.layout import moment, table
from fabricctl.store import Store


@click.group()
def command() -> None:
    """List, show and revoke certificates.

    A certificate says what was proved of a port, when, and until when that counts.

    \b
    Exit codes: 0 done; 2 there is no certificate of that name; 4 none of the named ones counts
    now (list --valid), or there is no store, or it cannot be read.
    """


@command.command("list")
@click.argument("selectors", nargs=-1, metavar="[NODE|PORT]...")
@click.option("--valid", is_flag=True, help="Only those that count now.")
@click.option("--all", "everything", is_flag=True, help="Also those that a newer one has replaced.")
@json_option
def list_(*, selectors: tuple[str, ...], valid: bool, everything: bool, as_json: bool) -> None:
    """List the newest certificate of every port, or of the named nodes and ports.

    \b
    Exit codes: 0 listed, or nothing has been certified yet; 2 there is no certificate of a name;
    4 none of the named ones counts now (--valid), or the store cannot be read.
    """
    now = time.time()
    if not selectors and stored.nothing_yet(as_json=as_json):
        return
    with Store.open(readonly=True) as store:
        for selector in selectors:
            if not store.certificates([selector], newest=False):
                raise _unknown(selector)
        found = store.certificates(selectors or None, newest=not everything, valid_at=now if valid else None)
    if as_json:
        emit_json([{"state": _state(c, now), "certificate": c} for c in found])
    elif found:
        head = ("port", "state", "issued", "until", "peers passed", "suspect")
        click.echo("\n".join(table([head, *(_row(certificate, now) for certificate in found)])))
        _warn_of_simulation(found)
    else:
        click.echo("no certificate counts now" if valid else "no certificates on record")
    if selectors and not found:
        raise SystemExit(Exit.UNKNOWN)


@command.command()
@click.argument("selector", metavar="NODE|PORT|ID")
@json_option
def show(*, selector: str, as_json: bool) -> None:
    """Show what the certificates of a node or a port say, and what they are bound to.

    \b
    Exit codes: 0 shown; 2 there is no certificate of that name; 4 there is no store, or it cannot be read.
    """
    now = time.time()
    with Store.open(readonly=True) as store:
        found = store.certificates([selector])
    if not found:
        raise _unknown(selector)
    if as_json:
        emit_json([{"state": _state(c, now), "certificate": c} for c in found])
        return
    click.echo("\n\n".join("\n".join(_lines(certificate, now)) for certificate in found))


@command.command()
@click.argument("selector", metavar="NODE|PORT|ID")
@click.option("--why", required=True, help="The reason, in one line; the gate shows it.")
@json_option
def revoke(*, selector: str, why: str, as_json: bool) -> None:
    """Revoke the certificates of a node, of a port, or of one id: the gate says no until a new one.

    \b
    Exit codes: 0 revoked, now or before; 2 there is no certificate of that name; 4 the store cannot
    be read or written; 5 another run is writing to it.
    """
    reason = " ".join(why.split())
    if not reason:
        raise UsageError("--why is empty", next_step="say in a few words why the certificate must not count")
    Store.open(readonly=True).close()  # where there is none it says so: none is begun to find nothing in it
    with Store.open() as store:
        revoked = store.revoke(selector, getpass.getuser(), reason, time.time())
        known = bool(revoked) or bool(store.certificates([selector]))
    if not known:
        raise _unknown(selector)
    if as_json:
        emit_json([certificate.id for certificate in revoked])
        return
    for certificate in revoked:
        click.echo(f"revoked {certificate.id}")
    if not revoked:
        click.echo(f"all certificates of {quoted(selector)} were revoked before")
    else:
        node = quoted(revoked[0].port.device)
        click.echo(f'to certify again: "fabricctl verify --pairs {node}:all"')


def _unknown(selector: str) -> UsageError:
    return UsageError(f"there is no certificate for {selector!r}", next_step='see "fabricctl certs list"')


def _state(certificate: Certificate, now: float) -> str:
    """Return whether a certificate counts at this time, or why not."""
    if certificate.revoked:
        return "revoked"
    if certificate.outcome is not Outcome.PASS:
        return str(certificate.outcome)
    if certificate.expires_at <= now:
        return "expired"
    return "valid"


def _row(certificate: Certificate, now: float) -> tuple[str, ...]:
    passed = list(certificate.peers.values()).count(Outcome.PASS)
    return (
        str(certificate.port),
        _state(certificate, now),
        moment(certificate.issued_at),
        moment(certificate.expires_at),
        f"{passed} of {len(certificate.peers)}",
        certificate.suspects[0] if certificate.suspects else "-",
    )


def _warn_of_simulation(certificates: tuple[Certificate, ...]) -> None:
    for words in sorted({c.simulated for c in certificates if c.simulated}):
        click.echo(f"SIMULATED: {words}; these certificates say nothing about real hardware")


def _lines(certificate: Certificate, now: float) -> list[str]:
    lines = [
        f"certificate {certificate.id}: {_state(certificate, now)}",
        f"  issued {moment(certificate.issued_at)} by run {certificate.run_id}",
        f"  until {moment(certificate.expires_at)}",
        f"  policy {certificate.policy} (limits {certificate.policy_digest[:12]})",
        f"  engine {certificate.engine or 'none'}",
    ]
    if certificate.simulated:
        lines.append(f"  SIMULATED: {certificate.simulated}; it says nothing about real hardware")
    if certificate.revoked:
        lines.append(f"  revoked {certificate.revoked}")
    lines += [f"  peer {peer}: {outcome}" for peer, outcome in certificate.peers.items()]
    lines += [f"  {f.outcome}: {f.subject}: {f.what}" for f in certificate.findings]
    lines += [f"  suspect {suspect}" for suspect in certificate.suspects]
    lines += [f"  bound to {name}: {value}" for name, value in certificate.fingerprint.items()]
    if not certificate.fingerprint:
        lines.append("  bound to nothing: the device could not be read in that run")
    return lines
