-- `task`: hooks, on top of the raw calls.
return function(task)
  local sethooks = task.sethooks
  task.sethooks = nil

  --- `hook([create], [term])` → resume, yield: `create(thread)` is called before any task first
  --- runs, however it began, `term(thread)` when it has ended, however it ended. Without arguments
  --- there are no hooks.
  function task.hook(create, term)
    for index, hook in ipairs { create or false, term or false } do
      if hook and type(hook) ~= "function" then
        error(("bad argument #%d to 'hook' (function expected, got %s)"):format(index, type(hook)), 2)
      end
    end
    sethooks(create, term)
    return coroutine.resume, coroutine.yield
  end

  return task
end
