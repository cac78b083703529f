---@meta pb.slice

return require "silly.pb.slice"
