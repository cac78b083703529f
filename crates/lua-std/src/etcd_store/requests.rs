//! Requests of scripts: tables become messages. Wrong types are errors of the argument.

use bytes::Bytes;
use etcd::messages::{
    CompactionRequest, Compare, CompareTarget, DeleteRangeRequest, LeaseGrantRequest,
    LeaseKeepAliveRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest,
    RequestOp, RequestOpKind, TxnRequest, WatchCreateRequest, prefix_end,
};
use mlua::{Error, FromLua, LuaString, Result, Table, Value};

/// The words of an enumeration, by their numbers.
type Words = &'static [&'static str];

const ORDERS: Words = &["NONE", "ASCEND", "DESCEND"];
const TARGETS: Words = &["KEY", "VERSION", "CREATE", "MOD", "VALUE"];
const FILTERS: Words = &["NOPUT", "NODELETE"];
const COMPARISONS: Words = &["EQUAL", "GREATER", "LESS", "NOT_EQUAL"];

/// Nested transactions of one request.
const DEPTH: usize = 8;

fn wrong(call: &str, name: &str, why: &str) -> Error {
    Error::runtime(format!("bad argument #1 to '{call}' ({name}: {why})"))
}

/// A field that may be absent.
pub(super) fn optional<T: FromLua>(call: &str, table: &Table, name: &str) -> Result<Option<T>> {
    let value: Value = table.get(name)?;
    let kind = value.type_name();
    table.get::<Option<T>>(name).map_err(|_| wrong(call, name, &format!("a {kind} is unexpected")))
}

fn bytes(call: &str, table: &Table, name: &str) -> Result<Bytes> {
    let text = optional::<LuaString>(call, table, name)?;
    Ok(text.map_or_else(Bytes::new, |text| Bytes::copy_from_slice(&text.as_bytes())))
}

fn integer(call: &str, table: &Table, name: &str) -> Result<i64> {
    Ok(optional(call, table, name)?.unwrap_or(0))
}

fn flag(call: &str, table: &Table, name: &str) -> Result<bool> {
    Ok(optional(call, table, name)?.unwrap_or(false))
}

fn required(call: &str, table: &Table, name: &str) -> Result<i64> {
    optional(call, table, name)?.ok_or_else(|| wrong(call, name, "integer expected"))
}

fn word(call: &str, table: &Table, name: &str, words: Words) -> Result<i32> {
    match optional::<String>(call, table, name)? {
        Some(text) => number(call, name, &text, words),
        None => Ok(0),
    }
}

fn number(call: &str, name: &str, text: &str, words: Words) -> Result<i32> {
    let found = words.iter().position(|word| *word == text);
    found
        .and_then(|index| i32::try_from(index).ok())
        .ok_or_else(|| wrong(call, name, &format!("one of {} expected", words.join(", "))))
}

/// The keys of a request: one, those with a prefix, those from a key on, or a range.
fn keys(call: &str, table: &Table) -> Result<(Bytes, Bytes)> {
    const FIRST: Bytes = Bytes::from_static(b"\0");
    let (key, end) = (bytes(call, table, "key")?, bytes(call, table, "range_end")?);
    let has_prefix = flag(call, table, "prefix")?;
    let is_open = has_prefix || flag(call, table, "fromkey")?;
    if key.is_empty() && !is_open {
        return Err(wrong(call, "key", "string expected"));
    }
    Ok(match (key.is_empty(), has_prefix, is_open) {
        (true, ..) => (FIRST, FIRST),
        (false, true, _) => (key.clone(), prefix_end(&key)),
        (false, false, true) => (key, FIRST),
        (false, false, false) => (key, end),
    })
}

pub(super) fn range(call: &'static str, table: &Table) -> Result<RangeRequest> {
    let (key, range_end) = keys(call, table)?;
    Ok(RangeRequest {
        key,
        range_end,
        limit: integer(call, table, "limit")?,
        revision: integer(call, table, "revision")?,
        sort_order: word(call, table, "sort_order", ORDERS)?,
        sort_target: word(call, table, "sort_target", TARGETS)?,
        serializable: flag(call, table, "serializable")?,
        keys_only: flag(call, table, "keys_only")?,
        count_only: flag(call, table, "count_only")?,
        min_mod_revision: integer(call, table, "min_mod_revision")?,
        max_mod_revision: integer(call, table, "max_mod_revision")?,
        min_create_revision: integer(call, table, "min_create_revision")?,
        max_create_revision: integer(call, table, "max_create_revision")?,
    })
}

pub(super) fn put(call: &'static str, table: &Table) -> Result<PutRequest> {
    let key = bytes(call, table, "key")?;
    if key.is_empty() {
        return Err(wrong(call, "key", "string expected"));
    }
    Ok(PutRequest {
        key,
        value: bytes(call, table, "value")?,
        lease: integer(call, table, "lease")?,
        prev_kv: flag(call, table, "prev_kv")?,
        ignore_value: flag(call, table, "ignore_value")?,
        ignore_lease: flag(call, table, "ignore_lease")?,
    })
}

pub(super) fn delete(call: &'static str, table: &Table) -> Result<DeleteRangeRequest> {
    let (key, range_end) = keys(call, table)?;
    Ok(DeleteRangeRequest { key, range_end, prev_kv: flag(call, table, "prev_kv")? })
}

pub(super) fn compact(call: &'static str, table: &Table) -> Result<CompactionRequest> {
    let revision = required(call, table, "revision")?;
    Ok(CompactionRequest { revision, physical: flag(call, table, "physical")? })
}

pub(super) fn txn(call: &'static str, table: &Table) -> Result<TxnRequest> {
    transaction(call, table, DEPTH)
}

fn transaction(call: &'static str, table: &Table, depth: usize) -> Result<TxnRequest> {
    if depth == 0 {
        return Err(wrong(call, "txn", "too many nested transactions"));
    }
    let list =
        |name: &str| optional::<Vec<Table>>(call, table, name).map(Option::unwrap_or_default);
    let operations = |name: &str| -> Result<Vec<RequestOp>> {
        list(name)?.iter().map(|one| operation(call, one, depth)).collect()
    };
    let compare: Result<Vec<Compare>> =
        list("compare")?.iter().map(|one| comparison(call, one)).collect();
    Ok(TxnRequest {
        compare: compare?,
        success: operations("success")?,
        failure: operations("failure")?,
    })
}

fn operation(call: &'static str, table: &Table, depth: usize) -> Result<RequestOp> {
    let named = |name: &str| optional::<Table>(call, table, name);
    let kind = match (named("get")?, named("put")?, named("delete")?, named("txn")?) {
        (Some(table), None, None, None) => RequestOpKind::Range(range(call, &table)?),
        (None, Some(table), None, None) => RequestOpKind::Put(put(call, &table)?),
        (None, None, Some(table), None) => RequestOpKind::DeleteRange(delete(call, &table)?),
        (None, None, None, Some(table)) => {
            RequestOpKind::Txn(transaction(call, &table, depth - 1)?)
        }
        _ => return Err(wrong(call, "operation", "one of get, put, delete, txn expected")),
    };
    Ok(kind.into())
}

fn comparison(call: &'static str, table: &Table) -> Result<Compare> {
    let (key, range_end) = keys(call, table)?;
    let result = word(call, table, "result", COMPARISONS)?;
    let named = |name: &str| optional::<i64>(call, table, name);
    let value = optional::<LuaString>(call, table, "value")?;
    let value = value.map(|text| Bytes::copy_from_slice(&text.as_bytes()));
    let targets = [
        named("version")?.map(CompareTarget::Version),
        named("create_revision")?.map(CompareTarget::CreateRevision),
        named("mod_revision")?.map(CompareTarget::ModRevision),
        value.map(CompareTarget::Value),
        named("lease")?.map(CompareTarget::Lease),
    ];
    let mut given = targets.into_iter().flatten();
    match (given.next(), given.next()) {
        (Some(target), None) => Ok(Compare { range_end, ..Compare::new(key, result, target) }),
        _ => {
            let why = "one of version, create_revision, mod_revision, value, lease expected";
            Err(wrong(call, "compare", why))
        }
    }
}

pub(super) fn grant(call: &'static str, table: &Table) -> Result<LeaseGrantRequest> {
    Ok(LeaseGrantRequest { ttl: required(call, table, "TTL")?, id: integer(call, table, "ID")? })
}

pub(super) fn revoke(call: &'static str, table: &Table) -> Result<LeaseRevokeRequest> {
    Ok(LeaseRevokeRequest { id: required(call, table, "ID")? })
}

pub(super) fn keep_alive(call: &'static str, table: &Table) -> Result<LeaseKeepAliveRequest> {
    Ok(LeaseKeepAliveRequest { id: required(call, table, "ID")? })
}

pub(super) fn time_to_live(call: &'static str, table: &Table) -> Result<LeaseTimeToLiveRequest> {
    Ok(LeaseTimeToLiveRequest {
        id: required(call, table, "ID")?,
        keys: flag(call, table, "keys")?,
    })
}

pub(super) fn watch(call: &'static str, table: &Table) -> Result<WatchCreateRequest> {
    let (key, range_end) = keys(call, table)?;
    let mut filters = Vec::new();
    for text in optional::<Vec<String>>(call, table, "filters")?.unwrap_or_default() {
        filters.push(number(call, "filters", &text, FILTERS)?);
    }
    for (index, name) in (0..).zip(FILTERS) {
        if flag(call, table, name)? {
            filters.push(index);
        }
    }
    let start = optional(call, table, "start_revision")?;
    Ok(WatchCreateRequest {
        key,
        range_end,
        start_revision: start.map_or_else(|| integer(call, table, "revision"), Ok)?,
        progress_notify: flag(call, table, "progress_notify")?,
        filters,
        prev_kv: flag(call, table, "prev_kv")?,
        ..WatchCreateRequest::default()
    })
}
