---@meta silly.net.grpc.code

---Status codes of gRPC.
---@class silly.net.grpc.code
---@field OK integer
---@field Canceled integer
---@field CANCELLED integer
---@field Unknown integer
---@field UNKNOWN integer
---@field InvalidArgument integer
---@field INVALID_ARGUMENT integer
---@field DeadlineExceeded integer
---@field DEADLINE_EXCEEDED integer
---@field NotFound integer
---@field NOT_FOUND integer
---@field AlreadyExists integer
---@field ALREADY_EXISTS integer
---@field PermissionDenied integer
---@field PERMISSION_DENIED integer
---@field ResourceExhausted integer
---@field RESOURCE_EXHAUSTED integer
---@field FailedPrecondition integer
---@field FAILED_PRECONDITION integer
---@field Aborted integer
---@field ABORTED integer
---@field OutOfRange integer
---@field OUT_OF_RANGE integer
---@field Unimplemented integer
---@field UNIMPLEMENTED integer
---@field Internal integer
---@field INTERNAL integer
---@field Unavailable integer
---@field UNAVAILABLE integer
---@field DataLoss integer
---@field DATA_LOSS integer
---@field Unauthenticated integer
---@field UNAUTHENTICATED integer
local M = {}

return M
