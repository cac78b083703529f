//! The floor under `gateway` as a program: `floor-proxy UPSTREAM [ADDRESS]` (default 127.0.0.1:0).

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let upstream = arguments
        .next()
        .ok_or_else(|| std::io::Error::other("usage: floor-proxy UPSTREAM [ADDRESS]"))?;
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".to_owned());
    bench::floor::serve(&["proxy".to_owned(), address, upstream, "keep".to_owned()])
}
