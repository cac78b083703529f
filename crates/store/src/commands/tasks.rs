//! `TASK`: background jobs and the processes that run them.
//!
//! A change that may give another process something to do is published on [`TASKS_CHANNEL`].

use bytes::Bytes;

use super::{Call, CommandError, CommandResult, SYNTAX};
use crate::cron::Cron;
use crate::database::Database;
use crate::limits::{
    KEY_BYTES, TASK_BYTES, TASK_DELAY_MS, TASK_NAME_BYTES, TASK_PAYLOAD_BYTES, TASK_RETRIES, TASKS,
};
use crate::tasks::{
    AfterFailure, Cancelled, NewJob, Now, Period, QueueFull, TASKS_CHANNEL, Taken, TaskCounts,
    TaskLoad,
};

impl Call<'_> {
    fn task_name(&self, at: usize) -> Result<Bytes, CommandError> {
        let name = self.word(at);
        match name.is_empty() || name.len() > TASK_NAME_BYTES {
            true => Err(format!("ERR the name of a task has 1 to {TASK_NAME_BYTES} bytes").into()),
            false => Ok(Bytes::copy_from_slice(name)),
        }
    }

    /// A number that is not negative.
    fn natural(&self, at: usize) -> Result<u64, CommandError> {
        u64::try_from(self.number(at)?).map_err(|_| SYNTAX)
    }

    fn milliseconds(&self, at: usize) -> Result<u64, CommandError> {
        let ms = self.natural(at)?;
        match ms <= TASK_DELAY_MS {
            true => Ok(ms),
            false => Err("ERR a time of a task is at most 30 days".into()),
        }
    }

    fn whole(&mut self, number: u64) {
        self.out.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    fn wake_runners(&mut self) {
        self.state.pubsub.publish(TASKS_CHANNEL, Bytes::new(), false);
    }

    fn now(&self) -> Now {
        Now { ms: self.now_ms, wall_ms: Database::wall_ms() }
    }

    fn exactly(&self, words: usize) -> CommandResult {
        if self.len() == words { Ok(()) } else { Err(SYNTAX) }
    }
}

pub(super) fn task(call: &mut Call<'_>) -> CommandResult {
    let kind = call.word(1).to_ascii_uppercase();
    match kind.as_slice() {
        b"ADD" => add(call),
        b"EVERY" => every(call),
        b"CRON" => cron(call),
        b"TAKE" => take(call),
        b"DONE" => done(call),
        b"FAIL" => fail(call),
        b"RETURN" => put_back(call),
        b"CANCEL" => cancel(call),
        b"FIND" => find(call),
        b"STATS" => stats(call),
        b"CLEAR" => clear(call),
        b"REPORT" => report(call),
        _ => Err(SYNTAX),
    }
}

/// `TASK ADD name payload [DELAY ms] [EXPIRES ms] [RETRIES n] [BACKOFF ms] [KEY key]`: the id of
/// the job, or null if a job with the key waits or runs.
fn add(call: &mut Call<'_>) -> CommandResult {
    let mut new = NewJob { name: call.task_name(2)?, due_ms: call.now_ms, ..NewJob::default() };
    let payload = call.word(3);
    if payload.len() > TASK_PAYLOAD_BYTES {
        let max = TASK_PAYLOAD_BYTES;
        return Err(format!("ERR the arguments of a task have at most {max} bytes").into());
    }
    new.payload = Bytes::copy_from_slice(payload);
    let mut at = 4;
    while at + 1 < call.len() {
        match call.word(at).to_ascii_uppercase().as_slice() {
            b"DELAY" => new.due_ms = call.now_ms.saturating_add(call.milliseconds(at + 1)?),
            b"EXPIRES" => {
                new.expires_ms = Some(call.now_ms.saturating_add(call.milliseconds(at + 1)?));
            }
            b"BACKOFF" => new.backoff_ms = call.milliseconds(at + 1)?,
            b"RETRIES" => {
                let retries = u32::try_from(call.natural(at + 1)?).ok();
                new.retries = retries
                    .filter(|retries| *retries <= TASK_RETRIES)
                    .ok_or_else(|| format!("ERR a task has at most {TASK_RETRIES} retries"))?;
            }
            b"KEY" => {
                let key = call.word(at + 1);
                if key.is_empty() || key.len() > KEY_BYTES {
                    return Err(format!("ERR a key has 1 to {KEY_BYTES} bytes").into());
                }
                new.key = Some(Bytes::copy_from_slice(key));
            }
            _ => return Err(SYNTAX),
        }
        at += 2;
    }
    call.exactly(at)?;
    // An expired job holds neither its key nor its room.
    call.state.tasks.expire(TASKS, call.now_ms);
    match call.state.tasks.add(new, TASKS, TASK_BYTES) {
        Ok(Some(id)) => {
            call.whole(id);
            call.wake_runners();
        }
        Ok(None) => call.out.nil(),
        Err(QueueFull) => return Err("FULL too many jobs are waiting".into()),
    }
    Ok(())
}

/// `TASK EVERY name ms`: a job in each period, while this connection or another that wants it is
/// there.
fn every(call: &mut Call<'_>) -> CommandResult {
    call.exactly(4)?;
    let (name, every_ms) = (call.task_name(2)?, call.milliseconds(3)?);
    if every_ms == 0 {
        return Err(SYNTAX);
    }
    schedule(call, &name, Period::Every(every_ms))
}

/// `TASK CRON name expression`: a job at each time that the expression names, in UTC, as for
/// `TASK EVERY`.
fn cron(call: &mut Call<'_>) -> CommandResult {
    call.exactly(4)?;
    let name = call.task_name(2)?;
    let text = String::from_utf8_lossy(call.word(3));
    let cron: Cron = text.parse().map_err(|why| format!("ERR a cron expression: {why}"))?;
    schedule(call, &name, Period::Cron(cron))
}

fn schedule(call: &mut Call<'_>, name: &Bytes, period: Period) -> CommandResult {
    let (owner, now) = (call.session.owner, call.now());
    if !call.state.tasks.schedule(name, period, owner, now) {
        return Err("ERR too many periodic tasks".into());
    }
    call.out.ok();
    Ok(())
}

/// `TASK TAKE name …`: the next job as id, name, payload and attempt; or the milliseconds until one
/// is due, null if none is.
fn take(call: &mut Call<'_>) -> CommandResult {
    let names = (2..call.len()).map(|at| call.task_name(at)).collect::<Result<Vec<_>, _>>()?;
    let now = call.now();
    match call.state.tasks.take(&names, call.session.owner, now) {
        Taken::Job(begun) => {
            call.out.array(4);
            call.whole(begun.id);
            call.out.bulk(&begun.name);
            call.out.bulk(&begun.payload);
            call.out.integer(i64::from(begun.attempt));
        }
        Taken::Wait(Some(wait_ms)) => call.whole(wait_ms),
        Taken::Wait(None) => call.out.nil(),
    }
    Ok(())
}

/// `TASK DONE id`: 1, or 0 if the job is not this connection's any more.
fn done(call: &mut Call<'_>) -> CommandResult {
    call.exactly(3)?;
    let id = call.natural(2)?;
    let is_mine = call.state.tasks.done(id, call.session.owner);
    call.out.integer(i64::from(is_mine));
    Ok(())
}

/// `TASK FAIL id`: the milliseconds until it is tried again; -1 if it is not, -2 if it was
/// cancelled, null if the job is not this connection's any more.
fn fail(call: &mut Call<'_>) -> CommandResult {
    call.exactly(3)?;
    let id = call.natural(2)?;
    match call.state.tasks.fail(id, call.session.owner, call.now_ms) {
        Some(AfterFailure::RetryIn(pause_ms)) => {
            call.whole(pause_ms);
            call.wake_runners();
        }
        Some(AfterFailure::Failed) => call.out.integer(-1),
        Some(AfterFailure::Cancelled) => call.out.integer(-2),
        None => call.out.nil(),
    }
    Ok(())
}

/// `TASK RETURN id`: the job waits again, as if it had not begun.
fn put_back(call: &mut Call<'_>) -> CommandResult {
    call.exactly(3)?;
    let id = call.natural(2)?;
    let is_mine = call.state.tasks.put_back(id, call.session.owner, call.now_ms);
    call.out.integer(i64::from(is_mine));
    call.wake_runners();
    Ok(())
}

/// `TASK CANCEL id`: 1 if the job had not begun, 2 if it runs and is told to end, 0 if there is no
/// such job.
fn cancel(call: &mut Call<'_>) -> CommandResult {
    call.exactly(3)?;
    let id = call.natural(2)?;
    let cancelled = call.state.tasks.cancel(id);
    if cancelled == Some(Cancelled::Running) {
        call.state.pubsub.publish(TASKS_CHANNEL, Bytes::from(id.to_string()), false);
    }
    call.out.integer(match cancelled {
        None => 0,
        Some(Cancelled::Removed) => 1,
        Some(Cancelled::Running) => 2,
    });
    Ok(())
}

/// `TASK FIND id`: `waiting` or `running`, and the attempts so far; null if the job has ended.
fn find(call: &mut Call<'_>) -> CommandResult {
    call.exactly(3)?;
    let id = call.natural(2)?;
    match call.state.tasks.find(id) {
        Some((is_running, attempts)) => {
            call.out.array(2);
            call.out.bulk(if is_running { b"running" } else { b"waiting" });
            call.out.integer(i64::from(attempts));
        }
        None => call.out.nil(),
    }
    Ok(())
}

/// `TASK STATS`: a name, its waiting and its running jobs, for each task that has any.
fn stats(call: &mut Call<'_>) -> CommandResult {
    call.exactly(2)?;
    let loads = call.state.tasks.loads();
    call.out.array(loads.len());
    for (name, load) in loads {
        call.out.array(3);
        call.out.bulk(&name);
        call.out.count(load.waiting);
        call.out.count(load.running);
    }
    Ok(())
}

/// `TASK CLEAR [name]`: removes the waiting jobs of a task, or of all; their number.
fn clear(call: &mut Call<'_>) -> CommandResult {
    let name = if call.len() > 2 { Some(call.task_name(2)?) } else { None };
    call.exactly(if name.is_some() { 3 } else { 2 })?;
    let removed = call.state.tasks.clear(name.as_deref());
    call.out.count(removed);
    Ok(())
}

/// `TASK REPORT waiting running done failed retried lost expired cancelled rejected`: the numbers
/// of a queue in Redis, which metrics then show instead of this one's.
fn report(call: &mut Call<'_>) -> CommandResult {
    call.exactly(11)?;
    let mut numbers = [0; 9];
    for (at, number) in numbers.iter_mut().enumerate() {
        *number = call.natural(at + 2)?;
    }
    let [waiting, running, done, failed, retried, lost, expired, cancelled, rejected] = numbers;
    let jobs = |number| usize::try_from(number).unwrap_or(usize::MAX);
    let load = TaskLoad { waiting: jobs(waiting), running: jobs(running) };
    let counts = TaskCounts { done, failed, retried, lost, expired, cancelled, rejected };
    call.state.tasks.report(load, counts);
    call.out.ok();
    Ok(())
}
