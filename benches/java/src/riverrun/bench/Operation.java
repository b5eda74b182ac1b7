package riverrun.bench;

/** What an operation leaves behind; riverrun's side must leave the same bytes. */
interface Operation {
    byte[] evidence();
}
