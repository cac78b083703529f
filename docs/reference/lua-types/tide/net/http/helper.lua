---@meta tide.net.http.helper

return require "silly.net.http.helper"
