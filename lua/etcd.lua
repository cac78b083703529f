-- `store.etcd`: the methods of a client and of a watch, and locks.
return function(raw)
  local time = require "silly.time"

  local Client = {}
  Client.__index = Client
  Client.__name = "etcd client"

  local Watcher = {}
  Watcher.__index = Watcher
  Watcher.__name = "etcd watch"

  local function check(name, request)
    if type(request) ~= "table" then
      error(("bad argument #1 to '%s' (table expected, got %s)"):format(name, type(request)), 3)
    end
  end

  for _, name in ipairs{ "get", "put", "delete", "txn", "compact", "ttl" } do
    local call = raw[name]
    --- `client:NAME(request)` → response | nil, err, code
    Client[name] = function(client, request)
      check(name, request)
      return call(client.raw, request)
    end
  end

  --- `leases()` → { leases = { { ID = }, … } } | nil, err, code
  function Client:leases() return raw.leases(self.raw, {}) end

  --- `grant{ TTL, ID, keepalive }`: a lease, which is renewed until it is revoked or the client is
  --- closed, unless `keepalive` is false.
  function Client:grant(request)
    check("grant", request)
    local response, err, code = raw.grant(self.raw, request)
    if not response or request.keepalive == false then return response, err, code end
    if not raw.keep(self.raw, response.ID, response.TTL) then
      raw.revoke(self.raw, { ID = response.ID })
      return nil, "etcd: the client is closed or renews too many leases", "resource_exhausted"
    end
    return response
  end

  --- `revoke{ ID }`: ends a lease, and its keys with it.
  function Client:revoke(request)
    check("revoke", request)
    if math.type(request.ID) == "integer" then raw.forget(self.raw, request.ID) end
    return raw.revoke(self.raw, request)
  end

  --- `keepalive{ ID }` or `keepalive(id)`: renews a lease once.
  function Client:keepalive(request)
    if type(request) == "number" then request = { ID = request } end
    check("keepalive", request)
    return raw.keepalive(self.raw, request)
  end

  --- `lost(id[, ms])` → true, err, code once a lease that the client renews is lost | nil, err
  function Client:lost(id, ms) return raw.lost(self.raw, id, ms) end

  --- `watch{ key, prefix, start_revision, … }` → watch | nil, err, code
  function Client:watch(request)
    check("watch", request)
    local watcher, err, code, revision = raw.watch(self.raw, request)
    if not watcher then return nil, err, code, revision end
    return setmetatable({ raw = watcher }, Watcher)
  end

  --- `read([ms])` → { events = { { type, kv, prev_kv }, … } } | nil, err, code
  function Watcher:read(ms) return raw.read(self.raw, ms) end

  function Watcher:close() self.raw:close() end
  Watcher.cancel = Watcher.close
  Watcher.__close = Watcher.close

  --- Closes the client; its watches end, and its leases are not renewed any more.
  function Client:close() self.raw:close() end
  Client.__close = Client.close

  --- The key before ours in the order of a lock, and the revision of that; nil if there is none;
  --- false, err
  local function predecessor(client, prefix, key)
    local list, err = client:get { key = prefix, prefix = true, sort_order = "ASCEND", sort_target = "CREATE" }
    if not list then return false, err end
    local before
    for _, kv in ipairs(list.kvs) do
      if kv.key == key then return before, list.header.revision end
      before = kv.key
    end
    return false, "etcd: the lease of the lock has ended"
  end

  --- Waits until a key is deleted after a revision; true | false, err
  local function wait_deleted(client, key, revision, due)
    local watch <close>, err = client:watch { key = key, start_revision = revision + 1, NOPUT = true }
    if not watch then return false, err end
    local response
    response, err = watch:read(due and math.max(due - time.monotonic(), 0))
    if not response then return false, err end
    return true
  end

  --- `lock(lease_id, prefix, uuid[, ms])` → true | false, err: waits until `prefix/uuid` is the oldest
  --- key with the prefix. The lock ends with `unlock` or with its lease.
  function Client:lock(lease, prefix, uuid, ms)
    local key = prefix .. "/" .. uuid
    local due = ms and time.monotonic() + ms
    local put = { key = key, value = "1", lease = lease }
    local made, err = self:txn {
      compare = { { key = key, create_revision = 0 } },
      success = { { put = put } },
    }
    if not made then return false, err end
    while true do
      local before, revision = predecessor(self, prefix .. "/", key)
      if before == nil then return true end
      local ok
      if before then
        ok, err = wait_deleted(self, before, revision, due)
      else
        err = revision
      end
      if not ok then
        -- Otherwise locks that come later would wait for this one until its lease ends.
        self:delete { key = key }
        return false, err
      end
    end
  end

  --- `unlock(prefix, uuid)` → response | nil, err
  function Client:unlock(prefix, uuid) return self:delete { key = prefix .. "/" .. uuid } end

  --- `newclient{ endpoints, user, password, tls, timeout, retry, … }` → client
  local function newclient(options)
    check("newclient", options)
    return setmetatable({ raw = raw.newclient(options) }, Client)
  end

  return { newclient = newclient }
end
