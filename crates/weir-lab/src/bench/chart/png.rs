//! Renders a picture as PNG. The font is included, so that the result is the same on every machine,
//! also without installed fonts.

use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

/// Its source is named in `assets/DejaVuSans-subset.LICENSE`.
const FONT: &[u8] = include_bytes!("../../../assets/DejaVuSans-subset.ttf");
const FAMILY: &str = "DejaVu Sans";
/// Pixels per unit of the picture, for screens of high resolution.
const SCALE: f32 = 2.0;

/// Renders an SVG picture.
///
/// # Errors
/// One sentence if the text is not an SVG picture, or the picture is too large.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut fonts = Database::new();
    fonts.load_font_data(FONT.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    let options =
        Options { fontdb: Arc::new(fonts), font_family: FAMILY.to_owned(), ..Options::default() };
    let tree = Tree::from_str(svg, &options)
        .map_err(|error| format!("the picture cannot be drawn: {error}"))?;
    let size = tree.size();
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let mut canvas = Pixmap::new(pixels(size.width()), pixels(size.height()))
        .ok_or_else(|| "the picture is too large".to_owned())?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut canvas.as_mut());
    canvas.encode_png().map_err(|error| format!("the picture cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::{SCALE, png};
    use resvg::tiny_skia::Pixmap;

    /// The number of pixels that are darker than the background.
    fn ink(text: &str) -> usize {
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"100\" height=\"20\" font-family=\"sans-serif\">\
            <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/><text x=\"5\" y=\"15\" font-size=\"12\">{text}</text></svg>"
        );
        let picture = Pixmap::decode_png(&png(&svg).unwrap()).unwrap();
        assert_eq!(picture.width(), 100 * SCALE as u32);
        picture.pixels().iter().filter(|pixel| pixel.red() < 128).count()
    }

    /// Fonts of the machine are not used, so this holds on machines without any.
    #[test]
    fn words_are_drawn_with_the_font_that_comes_along() {
        assert_eq!(ink(""), 0);
        let one = ink("9");
        assert!(one > 20, "{one}");
        assert!(ink("99.999% µs") > 5 * one);
    }

    #[test]
    fn what_is_no_picture_is_a_sentence() {
        assert!(png("<html/>").unwrap_err().starts_with("the picture cannot be drawn"));
    }
}
