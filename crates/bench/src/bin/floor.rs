//! Floors and backend as one program, selected by its arguments: see `bench::floor`.

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    bench::floor::serve(&arguments)
}
