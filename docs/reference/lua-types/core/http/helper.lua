---@meta core.http.helper

return require "silly.net.http.helper"
