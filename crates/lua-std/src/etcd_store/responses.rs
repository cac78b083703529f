//! Responses for scripts: messages become tables with the names of etcd's API.

use etcd::messages::{
    CompactionResponse, DeleteRangeResponse, Event, KeyValue, LeaseGrantResponse,
    LeaseKeepAliveResponse, LeaseLeasesResponse, LeaseRevokeResponse, LeaseTimeToLiveResponse,
    PutResponse, RangeResponse, ResponseHeader, ResponseOp, ResponseOpKind, TxnResponse,
    WatchResponse,
};
use mlua::{Lua, Result, Table};

/// A message that scripts see.
pub(crate) trait ToTable {
    fn to_table(&self, lua: &Lua) -> Result<Table>;
}

fn list<'t, T: ToTable + 't>(lua: &Lua, items: impl IntoIterator<Item = &'t T>) -> Result<Table> {
    let table = lua.create_table()?;
    for item in items {
        table.raw_push(item.to_table(lua)?)?;
    }
    Ok(table)
}

/// A table that begins with the header.
fn response(lua: &Lua, header: Option<ResponseHeader>) -> Result<Table> {
    let table = lua.create_table()?;
    let fields = lua.create_table()?;
    let header = header.unwrap_or_default();
    // Integers of Lua have a sign.
    fields.raw_set("cluster_id", header.cluster_id.cast_signed())?;
    fields.raw_set("member_id", header.member_id.cast_signed())?;
    fields.raw_set("revision", header.revision)?;
    fields.raw_set("raft_term", header.raft_term.cast_signed())?;
    table.raw_set("header", fields)?;
    Ok(table)
}

fn set_optional<T: ToTable>(lua: &Lua, table: &Table, name: &str, value: Option<&T>) -> Result<()> {
    match value {
        Some(value) => table.raw_set(name, value.to_table(lua)?),
        None => Ok(()),
    }
}

impl ToTable for KeyValue {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = lua.create_table_with_capacity(0, 6)?;
        table.raw_set("key", lua.create_string(&self.key)?)?;
        table.raw_set("value", lua.create_string(&self.value)?)?;
        table.raw_set("create_revision", self.create_revision)?;
        table.raw_set("mod_revision", self.mod_revision)?;
        table.raw_set("version", self.version)?;
        table.raw_set("lease", self.lease)?;
        Ok(table)
    }
}

impl ToTable for RangeResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        table.raw_set("kvs", list(lua, &self.kvs)?)?;
        table.raw_set("more", self.more)?;
        table.raw_set("count", self.count)?;
        Ok(table)
    }
}

impl ToTable for PutResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        set_optional(lua, &table, "prev_kv", self.prev_kv.as_ref())?;
        Ok(table)
    }
}

impl ToTable for DeleteRangeResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        table.raw_set("deleted", self.deleted)?;
        table.raw_set("prev_kvs", list(lua, &self.prev_kvs)?)?;
        Ok(table)
    }
}

impl ToTable for ResponseOp {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = lua.create_table()?;
        match &self.response {
            Some(ResponseOpKind::Range(one)) => table.raw_set("get", one.to_table(lua)?)?,
            Some(ResponseOpKind::Put(one)) => table.raw_set("put", one.to_table(lua)?)?,
            Some(ResponseOpKind::DeleteRange(one)) => {
                table.raw_set("delete", one.to_table(lua)?)?;
            }
            Some(ResponseOpKind::Txn(one)) => table.raw_set("txn", one.to_table(lua)?)?,
            None => {}
        }
        Ok(table)
    }
}

impl ToTable for TxnResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        table.raw_set("succeeded", self.succeeded)?;
        table.raw_set("responses", list(lua, &self.responses)?)?;
        Ok(table)
    }
}

impl ToTable for CompactionResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        response(lua, self.header)
    }
}

impl ToTable for LeaseGrantResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        table.raw_set("ID", self.id)?;
        table.raw_set("TTL", self.ttl)?;
        table.raw_set("error", self.error.as_str())?;
        Ok(table)
    }
}

impl ToTable for LeaseRevokeResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        response(lua, self.header)
    }
}

impl ToTable for LeaseKeepAliveResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        table.raw_set("ID", self.id)?;
        table.raw_set("TTL", self.ttl)?;
        Ok(table)
    }
}

impl ToTable for LeaseTimeToLiveResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        table.raw_set("ID", self.id)?;
        table.raw_set("TTL", self.ttl)?;
        table.raw_set("grantedTTL", self.granted_ttl)?;
        let keys = lua.create_table()?;
        for key in &self.keys {
            keys.raw_push(lua.create_string(key)?)?;
        }
        table.raw_set("keys", keys)?;
        Ok(table)
    }
}

impl ToTable for LeaseLeasesResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        let leases = lua.create_table()?;
        for lease in &self.leases {
            let one = lua.create_table()?;
            one.raw_set("ID", lease.id)?;
            leases.raw_push(one)?;
        }
        table.raw_set("leases", leases)?;
        Ok(table)
    }
}

impl ToTable for Event {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = lua.create_table()?;
        table.raw_set("type", if self.is_delete() { "DELETE" } else { "PUT" })?;
        set_optional(lua, &table, "kv", self.kv.as_ref())?;
        set_optional(lua, &table, "prev_kv", self.prev_kv.as_ref())?;
        Ok(table)
    }
}

impl ToTable for WatchResponse {
    fn to_table(&self, lua: &Lua) -> Result<Table> {
        let table = response(lua, self.header)?;
        table.raw_set("watch_id", self.watch_id)?;
        table.raw_set("created", self.created)?;
        table.raw_set("canceled", self.canceled)?;
        table.raw_set("compact_revision", self.compact_revision)?;
        table.raw_set("events", list(lua, &self.events)?)?;
        Ok(table)
    }
}
