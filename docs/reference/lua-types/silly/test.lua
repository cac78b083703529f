---@meta silly.test

---A network in memory.
---@class silly.test.Network
local Network = {}

---What a host name resolves to.
---@param name string
---@param address string
function Network:host(name, address) end

---Listens on from, and connects with to.
---@param from string
---@param to string
---@return silly.test.Relay?
---@return string?
function Network:relay(from, to) end

---Disturbs the connections that it passes on.
---@class silly.test.Relay
---@field addr string The address that it listens on.
---@field delay integer Milliseconds until what is sent arrives.
---@field piece? integer Bytes that are read at once.
local Relay = {}

---Nothing arrives until resume.
function Relay:pause() end

function Relay:resume() end

---The client or the server reads the end of the stream.
---@param side string
function Relay:half_close(side) end

---Closes all connections.
function Relay:disconnect() end

---Resets all connections.
function Relay:reset() end

---Disconnects, and refuses further connections.
function Relay:close() end

---Open connections.
---@return integer
function Relay:connections() end

---Checks of a test, its clock and its network.
---@class silly.test
local M = {}

---Tables are compared by their contents.
---@param got any
---@param expected any
---@param message? string
function M.equal(got, expected, message) end

---The error that the function raises.
---@param pattern string
---@param fn function
---@param ... any
---@return any
function M.raises(pattern, fn, ...) end

---Ends the test, which counts as skipped.
---@param reason? string
function M.skip(reason) end

---Stops the clock of this test's VM.
---@param wall_ms? integer
function M.stop_clock(wall_ms) end

---Moves the stopped clock; what is due happens in order.
---@param ms integer
function M.advance(ms) end

---From now on this test listens and connects in memory.
---@return silly.test.Network
function M.network() end

return M
