---@meta core.metrics.collector.jemalloc

return require "silly.metrics.collector.jemalloc"
