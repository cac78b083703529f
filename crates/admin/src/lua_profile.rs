//! `POST /v1/lua/profile`: a profile of the Lua code of all workers, while they serve.
//!
//! Promises that a recording ends with its time, or when its client disconnects.

use std::time::Duration;

use bytes::Bytes;
use lua_host::{ProfileError, ProfileFormat, ProfileKind};
use message::{Request, Response};
use settings::nearest;
use wire::target;

use crate::control::{Control, LuaProfileWanted};
use crate::limits::{PROFILE_S, PROFILE_S_MAX, PROFILE_SAMPLES_PER_SECOND};
use crate::messages::ApiResult;
use crate::problem::Problem;

pub(crate) async fn record(control: &dyn Control, request: &Request) -> ApiResult {
    let wanted = wanted(request.target.query())?;
    let profile: Bytes = control.profile_lua(wanted).await?;
    Ok(Response::with_body(200, wanted.format.media_type(), profile))
}

/// Parses the parameters; their names are known.
fn wanted(query: Option<&[u8]>) -> Result<LuaProfileWanted, Problem> {
    let cpu = ProfileKind::Cpu { per_second: PROFILE_SAMPLES_PER_SECOND };
    let mut wanted = LuaProfileWanted {
        kind: cpu,
        span: Duration::from_secs(PROFILE_S),
        format: ProfileFormat::Pprof,
    };
    for (name, value) in target::query_pairs(query.unwrap_or_default()) {
        let value = String::from_utf8_lossy(&value);
        match &*name {
            b"kind" => {
                let kinds = [("cpu", cpu), ("allocations", ProfileKind::Allocations)];
                wanted.kind = one_of("kind", &value, &kinds)?;
            }
            b"format" => {
                let formats = ProfileFormat::ALL.map(|format| (format.slug(), format));
                wanted.format = one_of("format", &value, &formats)?;
            }
            _ => {
                let seconds = value.parse().ok().filter(|s| (1..=PROFILE_S_MAX).contains(s));
                wanted.span = Duration::from_secs(seconds.ok_or_else(|| {
                    let expected = format!("a number from 1 to {PROFILE_S_MAX}");
                    Problem::new(400, format!("seconds: \"{value}\" is not {expected}"))
                })?);
            }
        }
    }
    Ok(wanted)
}

fn one_of<T: Copy>(parameter: &str, value: &str, known: &[(&str, T)]) -> Result<T, Problem> {
    if let Some((_, found)) = known.iter().find(|(name, _)| *name == value) {
        return Ok(*found);
    }
    let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
    let problem = Problem::new(400, format!("{parameter}: \"{value}\" is unknown"));
    Err(match nearest(value, names.iter().copied()) {
        Some(near) => problem.advice(format!("did you mean \"{near}\"?")),
        None => problem.advice(format!("one of {}", names.join(", "))),
    })
}

/// The response of a server without Lua code.
pub(crate) fn no_program() -> Problem {
    Problem::new(404, "this server runs no Lua code")
        .advice("its configuration has no handler, filter or program in Lua")
}

impl From<ProfileError> for Problem {
    fn from(error: ProfileError) -> Self {
        match error {
            ProfileError::NoProgram => no_program(),
            ProfileError::Busy(why) => {
                Problem::new(409, why).advice("repeat it when the other one has ended")
            }
            ProfileError::Failed(why) => Problem::new(500, why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wire::Method;

    use crate::testing::{Api, FakeServer};

    fn post(target: &str) -> (u16, String) {
        let api = Api(Rc::new(FakeServer::new()));
        let (status, _, text) = api.send(Method::Post, target, None, "");
        (status, text)
    }

    #[test]
    fn parameters_have_defaults_and_limits() {
        let (status, text) = post("/v1/lua/profile");
        assert_eq!((status, text.as_str()), (200, "Cpu { per_second: 100 } 10s Pprof"));
        let (_, text) = post("/v1/lua/profile?kind=allocations&seconds=3&format=folded");
        assert_eq!(text, "Allocations 3s Folded");
        for (query, part) in [
            ("seconds=0", "from 1 to 60"),
            ("seconds=61", "from 1 to 60"),
            ("seconds=1.5", "from 1 to 60"),
            ("kind=alocations", "did you mean \\\"allocations\\\"?"),
            ("format=png", "one of pprof, svg, folded"),
        ] {
            let (status, text) = post(&format!("/v1/lua/profile?{query}"));
            assert!(status == 400 && text.contains(part), "{query}: {text}");
        }
    }

    #[test]
    fn what_cannot_be_recorded_has_a_status() {
        // The fake server has no program for 58 seconds, and is busy for 59.
        assert_eq!(post("/v1/lua/profile?seconds=58").0, 404);
        let (status, text) = post("/v1/lua/profile?seconds=59");
        assert!(status == 409 && text.contains("another profile is being recorded"), "{text}");
    }
}
