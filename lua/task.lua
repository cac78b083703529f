-- `task`: what is built from the raw calls.
return function(task)
  local fork, running = task.fork, task.running

  --- `hook([create], [term])` → resume, yield: `create(thread)` is called when a task is forked,
  --- `term(thread)` when it has ended, however it ended. Without arguments there are no hooks.
  function task.hook(create, term)
    if not create and not term then
      task.fork = fork
      return coroutine.resume, coroutine.yield
    end
    function task.fork(fn, ...)
      if type(fn) ~= "function" then
        error("bad argument #1 to 'fork' (function expected, got " .. type(fn) .. ")", 2)
      end
      local thread = fork(function(...)
        local thread = running()
        local ended <close> = setmetatable({}, { __close = function()
          if term then term(thread) end
        end })
        fn(...)
      end, ...)
      if create then create(thread) end
      return thread
    end
    return coroutine.resume, coroutine.yield
  end

  return task
end
