---@meta tide.metrics.collector.jemalloc

return require "silly.metrics.collector.jemalloc"
