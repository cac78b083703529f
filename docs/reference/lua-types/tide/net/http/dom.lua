---@meta tide.net.http.dom

return require "silly.net.http.dom"
