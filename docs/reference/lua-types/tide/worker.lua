---@meta tide.worker

return require "silly.worker"
