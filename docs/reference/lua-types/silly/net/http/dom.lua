---@meta silly.net.http.dom

---An element.
---@class silly.net.http.dom.Node
---@field name string
---@field attr table<string, string|boolean>
---@field class string[]
---@field child any[] Elements and texts.
local Node = {}

---@return string
function Node:text() end

---Appends the texts to a list.
---@param list string[]
function Node:value(list) end

---@param wanted table
---@return boolean
function Node:match(wanted) end

---@param selector string
---@return silly.net.http.dom.Node[]
function Node:select(selector) end

---@param selector string
---@param level integer
---@return silly.net.http.dom.Node[]
function Node:selectn(selector, level) end

---The elements of an HTML page.
---@class silly.net.http.dom
local M = {}

---The first element.
---@param html string
---@return silly.net.http.dom.Node?
---@return string?
function M.parse(html) end

return M
