---@meta core.jwt

return require "silly.security.jwt"
