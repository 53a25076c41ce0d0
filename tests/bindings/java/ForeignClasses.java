// Copies java.lang.foreign's classes out of the Java that runs this into a folder, with the class files' version
// lowered to what an older javac reads, so that it can compile against them: PyPI has a new Java to run programs with
// and no compiler, Debian 12 has a compiler of Java 17.
//   java ForeignClasses FOLDER
// SPDX-License-Identifier: Apache-2.0
import java.io.IOException;
import java.net.URI;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

public final class ForeignClasses {
  static final int VERSION_AT = 6, JAVA_17 = 61;

  public static void main(String[] arguments) throws IOException {
    Path modules = FileSystems.getFileSystem(URI.create("jrt:/")).getPath("/modules/java.base");
    Path to = Path.of(arguments[0]);
    List<Path> found;
    try (Stream<Path> walked = Files.walk(modules.resolve("java/lang/foreign"))) {
      found = walked.filter(file -> file.toString().endsWith(".class")).collect(Collectors.toList());
    }
    for (Path file : found) {
      byte[] bytes = Files.readAllBytes(file);
      bytes[VERSION_AT] = 0;
      bytes[VERSION_AT + 1] = JAVA_17;
      Path made = to.resolve(modules.relativize(file).toString());
      Files.createDirectories(made.getParent());
      Files.write(made, bytes);
    }
  }
}
