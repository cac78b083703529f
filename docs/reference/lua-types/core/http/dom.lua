---@meta core.http.dom

return require "silly.net.http.dom"
