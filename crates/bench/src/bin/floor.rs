//! Floors and backend as one program, told by its arguments which to be: see `bench::floor`.

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    bench::floor::serve(&arguments)
}
