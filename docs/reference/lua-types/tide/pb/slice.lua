---@meta tide.pb.slice

return require "silly.pb.slice"
