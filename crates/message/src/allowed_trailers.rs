//! A body whose trailer section lacks some fields.

use std::task::{Context, Poll};

use crate::{Body, BodyStream, Fault, Field, Frame};

impl Body {
    /// The same content without the trailer fields for which `is_removed` holds: some recipients
    /// treat trailers like headers, so a filter that removes a header of a client removes the
    /// trailer of that name too.
    pub fn without_trailers(self, is_removed: impl Fn(Field<'_>) -> bool + 'static) -> Body {
        match self {
            Body::Stream(stream) => Body::stream(AllowedTrailers { stream, is_removed }),
            whole => whole,
        }
    }
}

struct AllowedTrailers<F> {
    stream: Box<dyn BodyStream>,
    is_removed: F,
}

impl<F: Fn(Field<'_>) -> bool> BodyStream for AllowedTrailers<F> {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let mut frame = self.stream.poll_frame(cx);
        if let Poll::Ready(Some(Ok(Frame::Trailers(trailers)))) = &mut frame {
            trailers.retain(|field| !(self.is_removed)(field));
        }
        frame
    }

    fn length(&self) -> Option<u64> {
        self.stream.length()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::Headers;

    #[test]
    fn only_the_named_trailers_are_removed() {
        let (mut writer, pieces) = crate::shared_body(1 << 20, None);
        assert!(writer.push(Bytes::from_static(b"one")).is_ok());
        let mut trailers = Headers::new();
        trailers.append("x-sum", "1");
        trailers.append("x-user", "root");
        writer.finish(Some(trailers));
        let mut body = pieces.body().without_trailers(|field| field.name == b"x-user");
        net::worker::block_on_local(async {
            let Some(Ok(Frame::Data(data))) = body.frame().await else { panic!("no data") };
            assert_eq!(&data[..], b"one");
            let Some(Ok(Frame::Trailers(left))) = body.frame().await else { panic!("no trailers") };
            let names: Vec<_> = left.iter().map(|field| field.name.to_vec()).collect();
            assert_eq!(names, [b"x-sum".to_vec()]);
            assert!(body.frame().await.is_none());
        });
        let whole = Body::from("abc").without_trailers(|_| true);
        assert_eq!(whole.length(), Some(3));
    }
}
