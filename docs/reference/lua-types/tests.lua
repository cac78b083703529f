---@meta

---Groups the tests that fn declares.
---@param name string
---@param fn function
function describe(name, fn) end

---Declares a test; timeout is in milliseconds.
---@param name string
---@param fn function
---@param options? { timeout?: integer }
function it(name, fn, options) end

---Calls fn before each test of this file or group.
---@param fn function
function before_each(fn) end

---Calls fn after each test of this file or group.
---@param fn function
function after_each(fn) end
