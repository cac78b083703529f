//! The floor under `hello` as a program: `floor-hello [ADDRESS]` (default 127.0.0.1:0).

fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    bench::floor::serve(&["hello".to_owned(), address])
}
