---@meta silly.profiler

---A finished profile.
---@class silly.profiler.Profile
local Profile = {}

---For pprof, gzipped.
---@return string
function Profile:pprof() end

---A line for each stack.
---@return string
function Profile:folded() end

---An SVG.
---@return string
function Profile:flamegraph() end

---Recorded stacks; what was measured outside of Lua, and beyond the limits.
---@return integer
---@return integer
---@return integer
function Profile:samples() end

---CPU and allocation profiles.
---@class silly.profiler
local M = {}

---The CPU time of this VM's thread.
---@param ms integer
---@param per_second? integer
---@return silly.profiler.Profile?
---@return string?
function M.cpu(ms, per_second) end

---The bytes that this VM allocates.
---@param ms integer
---@return silly.profiler.Profile?
---@return string?
function M.allocations(ms) end

---When each coroutine ran, as JSON for Perfetto.
---@param ms integer
---@return string?
---@return string?
function M.timeline(ms) end

---The method for a file with this name.
---@param file string
---@return string?
---@return string?
function M.format(file) end

---As .pb.gz, .svg or .folded.
---@param profile silly.profiler.Profile
---@param file string
---@return boolean?
---@return string?
function M.write(profile, file) end

return M
