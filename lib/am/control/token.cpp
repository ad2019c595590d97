#include "am/control/token.h"

#include <sodium.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"

namespace am::control {

namespace fs = std::filesystem;

namespace {

constexpr size_t kBytes = 32;
static_assert(kBytes == crypto_auth_KEYBYTES);
static_assert(kBytes == crypto_auth_BYTES);

// Initialises libsodium. May be called repeatedly and from several threads. Throws Error(kRuntime)
// if libsodium cannot be initialised.
void require_sodium() {
  if (::sodium_init() < 0) {
    throw Error(ErrorKind::kRuntime, "libsodium finds no source of random numbers");
  }
}

std::string hex_of(std::span<const unsigned char> bytes) {
  std::string text(2 * bytes.size() + 1,
                   '\0');  // one byte more, for the zero that sodium_bin2hex appends
  ::sodium_bin2hex(text.data(), text.size(), bytes.data(), bytes.size());
  text.pop_back();
  return text;
}

// Decodes hexadecimal text into `bytes`. Returns false if the text contains other characters or
// does not fill `bytes` exactly.
bool bytes_of(std::string_view text, std::span<unsigned char> bytes) {
  size_t size = 0;
  return text.size() == 2 * bytes.size() &&
         ::sodium_hex2bin(bytes.data(), bytes.size(), text.data(), text.size(), nullptr, &size,
                          nullptr) == 0 &&
         size == bytes.size();
}

std::string message_of(std::string_view who, const Nonces& nonces) {
  return cat("automesh ", who, " ", nonces.client, " ", nonces.job);
}

const unsigned char* data_of(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

}  // namespace

Token Token::make() {
  require_sodium();
  Token token;
  ::randombytes_buf(token.secret_.data(), token.secret_.size());
  return token;
}

Token Token::read(const fs::path& file) {
  require_sodium();
  struct stat info = {};
  if (::stat(file.c_str(), &info) != 0) {
    throw Error(ErrorKind::kIo, cat(file.string(), ": cannot read: ", std::strerror(errno)));
  }
  if ((info.st_mode & 0077) != 0) {
    throw Error(ErrorKind::kIo, cat(file.string(), ": other users may access this file"),
                cat("chmod 600 ", file.string(),
                    "; if another user may have read the token, start the job again"));
  }
  constexpr size_t kMost = 4096;
  const std::string text = read_file(file, kMost);
  Token token;
  if (bytes_of(trim(text), token.secret_)) return token;
  throw Error(
      ErrorKind::kFormat, cat(file.string(), ": the file holds no valid token"),
      "give a copy of RUN/control/token, which a job writes if it is started with --attach-at");
}

std::string Token::text() const { return hex_of(secret_); }

std::string Token::proof(std::string_view who, const Nonces& nonces) const {
  const std::string message = message_of(who, nonces);
  std::array<unsigned char, kBytes> proof;
  ::crypto_auth(proof.data(), data_of(message), message.size(), secret_.data());
  return hex_of(proof);
}

bool Token::proves(std::string_view who, const Nonces& nonces, std::string_view proof) const {
  std::array<unsigned char, kBytes> theirs;
  if (!bytes_of(proof, theirs)) return false;
  const std::string message = message_of(who, nonces);
  return ::crypto_auth_verify(theirs.data(), data_of(message), message.size(), secret_.data()) == 0;
}

std::string draw_nonce() {
  require_sodium();
  std::array<unsigned char, kBytes> bytes;
  ::randombytes_buf(bytes.data(), bytes.size());
  return hex_of(bytes);
}

bool is_nonce(std::string_view text) {
  std::array<unsigned char, kBytes> bytes;
  return bytes_of(text, bytes);
}

}  // namespace am::control
