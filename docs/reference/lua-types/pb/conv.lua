---@meta pb.conv

return require "silly.pb.conv"
